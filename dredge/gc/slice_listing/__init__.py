"""Step slice_listing: what the store holds below `data/`, written in full before anything else is read."""

from dredge.gc.slice_listing.output import SliceListingOutput

__all__ = ["SliceListingOutput"]
