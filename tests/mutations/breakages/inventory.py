"""Guards of runs on an inventory instead of a listing."""

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Drop, Keep, Put, Rename

ANEW = "test_an_object_written_anew_since_the_inventory_is_young_and_stays"

INVENTORY = (
    Breakage("what an inventory names is believed to be there still", "dredge.gc.subtract.step", "_subtract",
             Put("IfExp", "from_inventory", None), (ANEW,)),
    Breakage("an object written since the inventory is old enough", "dredge.approve.settings",
             "CollectionSettings.cutoff", Keep("Call", "min", "args.0"),
             ("test_an_object_written_anew_long_ago_but_after_the_inventory_stays_as_well",)),
    Breakage("slices count as covered that the inventory could not see", "dredge.gc.run", "Plan.covers_until",
             Drop("Assign", 2), ("test_slices_of_an_inventory_count_as_covered_by_its_own_time",)),
    Breakage("tables cover slices", "dredge.gc.run", "Plan.covers_until",
             Rename("Name", "BEGINNING", "seen_at"), ("test_tables_without_a_time_cover_nothing",)),
    Breakage("an inventory of another bucket is read", "dredge.inventory.manifest", "_read_manifest",
             Put("If", "source", False), ("test_a_stale_foreign_or_broken_inventory_is_refused",)),
    Breakage("a manifest that was changed is believed", "dredge.inventory.manifest", "_by_manifest",
             Put("If", "hexdigest", False), ("test_a_manifest_that_was_changed_is_not_believed",)),
    Breakage("a file that was changed is believed", "dredge.inventory.rows", "downloaded",
             Put("If", 1, False), ("test_a_file_that_is_not_what_the_manifest_says_stops_the_run",)),
    Breakage("versions that are not the latest count", "dredge.inventory.rows", "_current",
             Put("If", 1, False),
             ("test_of_several_versions_only_the_latest_counts_and_none_where_it_is_a_delete_marker",)),
    Breakage("keys are not decoded", "dredge.inventory.rows", "_keys", Put("If", "quoted", True),
             ("test_odd_keys_are_read_as_they_are",)),
    Breakage("an inventory that lacks slices is taken for complete", "dredge.gc.slice_listing.step",
             "_check_complete", Put("If", "missing", False),
             ("test_an_inventory_without_an_old_slice_is_refused",)),
    Breakage("another inventory than the planned one is read", "dredge.inventory.manifest",
             "find_again", Put("If", "source", False),
             ("test_an_inventory_that_was_replaced_since_the_plan_stops_the_run",)),
)  # fmt: skip
