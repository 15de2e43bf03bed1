"""The loop around the deletions of every store."""

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Always, Drop, Put

DELETING = (
    Breakage("that an answer was not clear is forgotten", "dredge.storage.deleting", "DeleteLoop._with_doubt",
             Put("If", 1, True), ("test_an_answer_that_had_to_be_asked_for_again_is_noted_with_the_key",)),
    Breakage("what our lost request deleted is missing", "dredge.storage.deleting", "DeleteLoop._with_doubt",
             Drop("keyword", "outcome"),
             ("test_what_is_gone_after_an_answer_in_doubt_was_deleted_and_says_so",)),
    Breakage("a request that never left counts as one whose answer was lost", "dredge.storage.deleting",
             "Codes.is_doubtful", Always(True), ("test_a_request_that_did_nothing_leaves_no_doubt",)),
    Breakage("permission is asked for once, and not before each attempt", "dredge.storage.deleting",
             "DeleteLoop._batch", Put("If", 1, False),
             ("test_each_attempt_is_asked_for_and_none_is_made_without_permission",)),
    Breakage("a key that was sent is noted as never sent", "dredge.storage.deleting", "DeleteLoop._told",
             Put("If", 1, False), ("test_a_no_of_the_driver_does_not_hide_that_a_key_was_sent_before",)),
    Breakage("what no answer speaks about is not asked again", "dredge.storage.deleting", "DeleteLoop._batch",
             Put("Assign", "unclear", []),
             ("test_what_no_answer_speaks_about_is_asked_alone_and_permission_with_it",)),
    Breakage("a failed look leaves a deletion in doubt", "dredge.storage.gcs.deleting", "GcsDeleter._look",
             Put("IfExp", 2, None), ("test_a_look_that_failed_leaves_no_deletion_in_doubt",)),
    Breakage("a version without an id is a whole object", "dredge.storage.deleting", "BatchVersionDeleter.delete",
             Put("If", "version", False),
             ("test_an_object_is_never_deleted_for_a_version_without_an_id",)),
)  # fmt: skip
