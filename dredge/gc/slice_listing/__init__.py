"""Step slice_listing: what the store holds below `data/`, written in full before anything else is read."""

from dredge.gc.slice_listing.output import LISTED, SliceListingOutput
from dredge.gc.slice_listing.slices import slice_time

__all__ = ["LISTED", "SliceListingOutput", "slice_time"]
