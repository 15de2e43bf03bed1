"""Step slice_listing: what the store holds below `data/`, written in full before anything else is read.

step      chooses what to list, and spreads it in rounds
slices    which slices, and how a long one is cut
items     what one task does
from_inventory    the same from an inventory of the bucket, without listing
"""

from dredge.gc.slice_listing.output import LISTED, SliceListingOutput
from dredge.gc.slice_listing.slices import choose_slices, slice_time

__all__ = ["LISTED", "SliceListingOutput", "choose_slices", "slice_time"]
