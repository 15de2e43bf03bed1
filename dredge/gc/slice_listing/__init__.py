"""Step slice_listing: the objects of the store below `data/`.

step      the step, from a listing or from an inventory
slices    the choice of slices, one task of the listing, and the files of the step
"""

from dredge.gc.slice_listing.slices import LISTED, SliceListingOutput, choose_slices, slice_time

__all__ = ["LISTED", "SliceListingOutput", "choose_slices", "slice_time"]
