"""The loop around the deletions of every store."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage

LOOP = "dredge/storage/deleting.py"

DELETING = (
    Breakage(
        "that an answer was not clear is forgotten",
        LOOP,
        "if doubt is None or outcome.outcome not in",
        "if True or outcome.outcome not in",
        ("test_an_answer_that_had_to_be_asked_for_again_is_noted_with_the_key",),
    ),
    Breakage(
        "what our lost request deleted is missing",
        LOOP,
        'return replace(outcome, outcome="deleted", message=words)',
        "return replace(outcome, message=words)",
        ("test_what_is_gone_after_an_answer_in_doubt_was_deleted_and_says_so",),
    ),
    Breakage(
        "a request that never left counts as one whose answer was lost",
        LOOP,
        "return code == UNCLEAR or code in self.transient",
        "return self.may_pass(code) or code == UNCLEAR",
        ("test_a_request_that_did_nothing_leaves_no_doubt",),
    ),
    Breakage(
        "permission is asked for once, and not before each attempt",
        LOOP,
        "if not may_send():",
        "if not attempt and not may_send():",
        ("test_each_attempt_is_asked_for_and_none_is_made_without_permission",),
    ),
    Breakage(
        "a key that was sent is noted as never sent",
        LOOP,
        "if outcome.code == NOT_SENT and item in before:",
        "if False:",
        ("test_a_no_of_the_driver_does_not_hide_that_a_key_was_sent_before",),
    ),
    Breakage(
        "what no answer speaks about is not asked again",
        LOOP,
        "unclear = [item for item, told in outcomes.items() if told.code in self._codes.alone]",
        "unclear = list[T]()",
        ("test_what_no_answer_speaks_about_is_asked_alone_and_permission_with_it",),
    ),
    Breakage(
        "a failed look leaves a deletion in doubt",
        "dredge/storage/gcs/deleting.py",
        "if isinstance(told, DeleteOutcome) and self.CODES.is_doubtful(told.code)",
        "if False",
        ("test_a_look_that_failed_leaves_no_deletion_in_doubt",),
    ),
)
