"""Google Cloud Storage, and S3 in its kinds."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Always, Drop, Put

GCS = (
    Breakage("a key whose part of a batch has no answer counts as gone", "dredge.storage.gcs.deleting",
             "_GcsBatches._outcome", Put("Call", 1, "deleted", "args.1"),
             ("test_a_part_without_an_answer_is_asked_again_and_is_not_taken_for_deleted",)),
    Breakage("what is written between look and deletion goes too", "dredge.storage.gcs.deleting",
             "_condition", Always(()),
             ("test_what_is_written_between_look_and_deletion_stays_where_versions_are_kept",)),
    Breakage("what took the place of a listed object goes for it", "dredge.storage.gcs.deleting",
             "GcsDeleter._as_listed", Put("If", 1, True),
             ("test_what_took_the_place_of_a_listed_object_stays",)),
    Breakage("the same bytes uploaded again go for those that were listed", "dredge.storage.gcs.deleting",
             "_is_same", Put("Return", "fromisoformat", True),
             ("test_what_took_the_place_of_a_listed_object_stays",)),
    Breakage("a sweep deletes by names alone", "dredge.runs.sweep", "DeletingTask._delete",
             Put("If", 1, True), ("test_a_candidate_that_was_uploaded_again_before_its_deletion_stays",)),
    Breakage("an answer with a number that two parts have is somebody's", "dredge.storage.gcs.wire",
             "_answers", Drop("Expr", "add"), ("test_an_answer_about_other_keys_deletes_nobody",)),
    Breakage("an answer is read as it came, though it is compressed", "dredge.storage.gcs.wire", "send",
             Put("UnaryOp", "is_object", False),
             ("test_what_the_service_compresses_on_its_way_is_read_and_objects_stay_as_they_are",)),
    Breakage("pages may lead in a circle", "dredge.storage.gcs.listing", "pages", Drop("Expr", "add"),
             ("test_pages_that_lead_in_a_circle_end",)),
    Breakage("a listing in any order is taken", "dredge.storage.gcs.listing", "_in_order",
             Put("If", 1, False), ("test_a_listing_that_is_not_whole_and_in_order_is_no_listing",)),
    Breakage("a state is replaced whatever came between look and write", "dredge.storage.gcs.store",
             "GcsWriter.put_if_match", Drop("keyword", "ifGenerationMatch"),
             ("test_a_state_that_was_replaced_after_the_look_is_not_written_over",)),
    Breakage("a copy is of whatever has the name by now", "dredge.storage.gcs.deleting", "rewrite",
             Put("AnnAssign", "asked", {}), ("test_the_copy_is_of_what_was_looked_at",)),
    Breakage("a deletion is taken back over what was written since", "dredge.storage.gcs.deleting", "rewrite",
             Drop("Assign", 4), ("test_a_deletion_is_not_taken_back_over_what_came_between_look_and_copy",)),
    Breakage("a store that overlooks conditions holds leases", "dredge.storage.probe", "demand_conditions",
             Drop("Raise", "RefusedError"), ("test_a_store_that_overlooks_conditions_is_refused",)),
    Breakage("S3 may list in any order", "dredge.storage.remote", "check_order", Put("If", 2, False),
             ("test_a_store_that_lists_in_another_order_is_refused",)),
)  # fmt: skip
