"""Guards of the wait of Icechunk's garbage."""

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Always, Put

_WAITING = "dredge.icechunk.collection.list_candidates.waiting"

ICECHUNK_WAITING = (
    Breakage("garbage of Icechunk waits for no other run", _WAITING, "_config",
             Put("keyword", "waits", False),
             ("test_a_run_deletes_nothing_that_it_found_itself_and_tells_what_waits",)),
    Breakage("what a file names that waits goes", _WAITING, "find_waited", Put("If", 1, False),
             ("test_what_waits_keeps_what_it_names_although_that_has_waited",)),
    Breakage("a chunk of the list is old by any age", "dredge.icechunk.collection.list_candidates.waiting",
             "advance_shard", Put("Call", "if_else", None, "args.2"),
             ("test_an_optimized_run_lets_no_wait_begin_of_a_chunk_that_is_young_by_its_age",)),
    Breakage("what is in use goes on waiting where another run's age is stricter",
             "dredge.icechunk.collection.list_candidates.waiting", "advance_shard",
             Put("Assign", "live", [False], "value"),
             ("test_what_is_in_use_leaves_the_list_whatever_age_a_run_asks_for",)),
    Breakage("what the last run deleted is garbage of Icechunk for ever", _WAITING, "_gone", Always(()),
             ("test_a_chunk_that_no_manifest_names_is_confirmed_by_an_optimized_run",)),
    Breakage("what was found before a record was damaged goes on waiting", _WAITING, "read_before",
             Put("If", 2, False), ("test_damaged_record_is_as_none_and_what_is_released_waits_anew",)),
    Breakage("a list of another life of an Icechunk repository is believed",
             "dredge.icechunk.collection.run", "find_list", Put("keyword", "life", ""),
             ("test_a_list_of_another_life_of_the_repository_is_not_believed",)),
    Breakage("a state of Icechunk without a list is built on", "dredge.icechunk.collection.steps",
             "_choose_mode", Put("If", "pending", False),
             ("test_without_a_list_that_can_be_believed_everything_waits_anew_and_the_run_is_clean",)),
    Breakage("an optimized run that knew not what waits lets the state move on",
             "dredge.icechunk.collection.save_report", "lost_list", Always(""),
             ("test_a_list_of_another_life_of_the_repository_is_not_believed",)),
    Breakage("garbage of spec 1 waits less than the minimum age", "dredge.icechunk.collection.config",
             "CollectConfig.grace", Put("IfExp", 1, 0),
             ("test_grace_is_longer_without_undo_and_on_spec_1_the_minimum_age_at_least",)),
)  # fmt: skip
