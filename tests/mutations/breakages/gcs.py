"""Google Cloud Storage, and S3 in its kinds."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage

STORE = "dredge/storage/gcs"

GCS = (
    Breakage(
        "a key whose part of a batch has no answer counts as gone",
        f"{STORE}/deleting.py",
        'return DeleteOutcome(key, "failed", UNCLEAR, "the server did not answer about this key")',
        'return DeleteOutcome(key, "deleted")',
        ("test_a_part_without_an_answer_is_asked_again_and_is_not_taken_for_deleted",),
    ),
    Breakage(
        "what is written between look and deletion goes too",
        f"{STORE}/deleting.py",
        'return (("ifGenerationMatch", generation),) if isinstance(generation, str) else ()',
        "return ()",
        ("test_what_is_written_between_look_and_deletion_stays_where_versions_are_kept",),
    ),
    Breakage(
        "what took the place of a listed object goes for it",
        f"{STORE}/deleting.py",
        "if listed is None or listed.etag is None or _is_same(listed, found):",
        "if True:",
        ("test_what_took_the_place_of_a_listed_object_stays",),
    ),
    Breakage(
        "the same bytes uploaded again go for those that were listed",
        f"{STORE}/deleting.py",
        "return datetime.fromisoformat(found.updated) == listed.last_modified",
        "return True",
        ("test_what_took_the_place_of_a_listed_object_stays",),
    ),
    Breakage(
        "a sweep deletes by names alone",
        "dredge/runs/sweep.py",
        "if not isinstance(self._deleter, ListedDeleter) or",
        "if True or",
        ("test_a_candidate_that_was_uploaded_again_before_its_deletion_stays",),
    ),
    Breakage(
        "an answer with a number that two parts have is somebody's",
        f"{STORE}/batches.py",
        "twice.add(number)",
        "pass",
        ("test_an_answer_about_other_keys_deletes_nobody",),
    ),
    Breakage(
        "an answer is read as it came, though it is compressed",
        f"{STORE}/wire.py",
        "decode_content=not is_object",
        "decode_content=False",
        ("test_what_the_service_compresses_on_its_way_is_read_and_objects_stay_as_they_are",),
    ),
    Breakage(
        "pages may lead in a circle",
        f"{STORE}/listing.py",
        "        seen.add(token)\n",
        "        seen = {token}\n",
        ("test_pages_that_lead_in_a_circle_end",),
    ),
    Breakage(
        "a listing in any order is taken",
        f"{STORE}/listing.py",
        "if item.name <= last or not item.name.startswith(prefix):",
        "if False:",
        ("test_a_listing_that_is_not_whole_and_in_order_is_no_listing",),
    ),
    Breakage(
        "a state is replaced whatever came between look and write",
        f"{STORE}/store.py",
        "return self._put(key, data, ifGenerationMatch=found.generation)",
        "return self._put(key, data)",
        ("test_a_state_that_was_replaced_after_the_look_is_not_written_over",),
    ),
    Breakage(
        "a copy is of whatever has the name by now",
        f"{STORE}/copying.py",
        'asked: dict[str, Any] = {"sourceGeneration": found.generation}',
        "asked: dict[str, Any] = {}",
        ("test_the_copy_is_of_what_was_looked_at",),
    ),
    Breakage(
        "a deletion is taken back over what was written since",
        f"{STORE}/copying.py",
        'asked["ifGenerationMatch"] = "0"',
        "pass",
        ("test_a_deletion_is_not_taken_back_over_what_came_between_look_and_copy",),
    ),
    Breakage(
        "a store that overlooks conditions holds leases",
        "dredge/storage/conditions.py",
        "    raise RefusedError(",
        "    RefusedError(",
        ("test_a_store_that_overlooks_conditions_is_refused",),
    ),
    Breakage(
        "S3 may list in any order",
        "dredge/storage/s3/listing.py",
        "if not ascending or (last and first <= last):",
        "if False:",
        ("test_a_store_that_lists_in_another_order_is_refused",),
    ),
)
