"""Scenes: a few related moves around one run, each a real or possible way to lose an object.

Every number in a scene is drawn, so the moves also come too early, too late, or in another order.
"""

from tests.simulation.gc.scenes import (
    asking,
    commits,
    days,
    earlier,
    gates,
    guards,
    looks,
    losses,
    moments,
    parts,
    people,
    retries,
    staging,
    stragglers,
    sweeping,
    undoing,
)
from tests.simulation.gc.scenes.stage import Scene

SCENES: tuple[Scene, ...] = (
    losses.the_same_again, losses.the_same_again, losses.claimed, losses.storm, losses.storm, losses.storm,
    losses.branches_come_and_go, losses.branches_come_and_go, losses.expired_comes_back,
    losses.expired_comes_back, losses.staged_moves, losses.staged_moves, losses.orphan, losses.orphan,
    losses.late_link, losses.late_stage, losses.late_parts, losses.two_at_once, losses.two_at_once,
    losses.again_and_again, losses.again_and_again, losses.damage, losses.others_inside,
    losses.deleted_while_idle, people.asked_first, people.asked_first, people.taken_back, people.taken_back,
    losses.neighbours, guards.kept_by_a_tag, guards.only_hidden, guards.only_looked,
    guards.staged_after_the_mark, guards.up_again_after_the_mark, guards.rows_are_lost, guards.not_there,
    guards.alike_later, guards.alike_at_once, guards.clocks_apart, guards.exactly_old,
    guards.tables_are_broken, guards.in_one_place, guards.index_is_lost, guards.kept_by_a_cache,
    guards.table_is_missing, guards.woken_beside_its_retry, guards.back_from_the_head,
    guards.orphan_of_before, guards.after_a_while, people.beyond_limits, people.beyond_limits,
    people.answered_early, people.made_final, people.made_final, staging.long_commit, staging.long_commit,
    staging.pages_are_lost, staging.hidden_then_not, staging.carried_around, staging.much_is_staged,
    staging.dangling, staging.up_again_though_poisoned, earlier.known_and_young, earlier.let_go,
    earlier.kept_by_a_policy, earlier.young_and_named_no_more, earlier.committed_since,
    earlier.kept_by_the_sweep, earlier.states_cross, sweeping.heads_move, sweeping.driver_is_silent,
    sweeping.overtaken, sweeping.late_answers, sweeping.others_come, sweeping.some_stay,
    sweeping.clocks_jump, sweeping.no_answers, sweeping.parts_settle, retries.beside_its_retry,
    retries.beside_its_retry, retries.lease_runs_out, asking.asked_anew, asking.asked_late,
    asking.changed_while_asked, asking.woken_while_asked, asking.told_no, gates.both_sleep,
    looks.look_arrives_last, looks.worker_sleeps, gates.claimed_late, gates.done_again, gates.given_up,
    gates.handed_over, gates.lost_meanwhile, gates.nobody_looks, gates.reported_twice,
    undoing.back_in_a_slice, undoing.copies_fail, undoing.copy_is_damaged, undoing.deleted_late,
    undoing.not_all_deleted, undoing.pinned_between, undoing.something_is_there, undoing.weeks_later,
    undoing.written_over, stragglers.back_a_day_late, retries.begun_anew, retries.asleep_meanwhile,
    commits.marked_anew, commits.seen_elsewhere, commits.old_versions, moments.carried_over,
    moments.taken_from_behind, moments.taken_from_a_tag, commits.two_lines, staging.copy_is_read,
    moments.left_behind, parts.parts_take_a_place, parts.parts_during_the_re_check,
    parts.parts_after_the_questions, *days.SCENES,
)  # fmt: skip
"""All scenes; one listed twice is drawn twice as often."""
BY_NAME = {scene.__name__: scene for scene in SCENES}
