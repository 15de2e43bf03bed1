"""Guards of runs on an inventory instead of a listing."""

from __future__ import annotations

from tests.mutations.breakages.breakage import GC, Breakage

ANEW = "test_an_object_written_anew_since_the_inventory_is_young_and_stays"

INVENTORY = (
    Breakage(
        "what an inventory names is believed to be there still",
        f"{GC}/subtract/step.py",
        "from_listing = [] if listing.from_inventory else listing.listed",
        "from_listing = listing.listed",
        (ANEW,),
    ),
    Breakage(
        "an object written since the inventory is old enough",
        f"{GC}/planning.py",
        "return min(latest, inventory.created_at)",
        "return latest",
        ("test_an_object_written_anew_long_ago_but_after_the_inventory_stays_as_well",),
    ),
    Breakage(
        "slices count as covered that the inventory could not see",
        f"{GC}/plan.py",
        "seen_at = min(seen_at, self.inventory.created_at)",
        "pass",
        ("test_slices_of_an_inventory_count_as_covered_by_its_own_time",),
    ),
    Breakage(
        "tables cover slices",
        f"{GC}/plan.py",
        "return BEGINNING\n            seen_at",
        "return seen_at\n            seen_at",
        ("test_tables_without_a_time_cover_nothing",),
    ),
    Breakage(
        "an inventory of another bucket is read",
        "dredge/inventory/manifest.py",
        "if source != bucket:",
        "if False:",
        ("test_a_stale_foreign_or_broken_inventory_is_refused",),
    ),
    Breakage(
        "a manifest that was changed is believed",
        "dredge/inventory/manifest.py",
        "if hashlib.md5(data, usedforsecurity=False).hexdigest() != checksum:",
        "if False:",
        ("test_a_manifest_that_was_changed_is_not_believed",),
    ),
    Breakage(
        "a file that was changed is believed",
        "dredge/inventory/download.py",
        "if size != file.size or (file.md5 and digest.hexdigest() != file.md5):",
        "if False:",
        ("test_a_file_that_is_not_what_the_manifest_says_stops_the_run",),
    ),
    Breakage(
        "versions that are not the latest count",
        "dredge/inventory/rows.py",
        'if "is_latest" in columns:',
        "if False:",
        ("test_of_several_versions_only_the_latest_counts_and_none_where_it_is_a_delete_marker",),
    ),
    Breakage(
        "keys are not decoded",
        "dredge/inventory/rows.py",
        "    if not quoted:",
        "    if True:",
        ("test_odd_keys_are_read_as_they_are",),
    ),
    Breakage(
        "an inventory that lacks slices is taken for complete",
        f"{GC}/slice_listing/from_inventory.py",
        "    if missing:",
        "    if False:",
        ("test_an_inventory_without_an_old_slice_is_refused",),
    ),
    Breakage(
        "another inventory than the planned one is read",
        f"{GC}/slice_listing/from_inventory.py",
        "if found.source != planned:",
        "if False:",
        ("test_an_inventory_that_was_replaced_since_the_plan_stops_the_run",),
    ),
)
