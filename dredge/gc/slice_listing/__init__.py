"""Step slice_listing: what the store holds below `data/`, written in full before anything else is read."""
