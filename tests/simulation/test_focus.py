"""Promises of a focus: its scenes and values are drawn in general histories as well, and its histories have them."""

import random

import pytest

from tests.simulation.focus import Focus
from tests.simulation.known_bugs import BUGS
from tests.simulation.worlds import WORLDS


@pytest.mark.parametrize("world", sorted(WORLDS))
def test_what_hunts_a_bug_is_drawn_in_general_histories_as_well(world: str) -> None:
    made = WORLDS[world]()
    for bug in BUGS:
        if bug.world == world:
            bug.focus.check(made.scenes, made.settings)


@pytest.mark.parametrize(
    "focus",
    [Focus(("no such scene",)), Focus(settings={"pace": (17.0,)}), Focus(settings={"no such part": (1,)})],
)
def test_a_focus_on_what_no_history_has_is_refused(focus: Focus) -> None:
    world = WORLDS["gc"](focus=focus)
    with pytest.raises(ValueError, match="no history has"):
        focus.check(world.scenes, world.settings)


def test_histories_have_what_their_focus_names() -> None:
    focus = Focus(("two_at_once",), {"pace": (2.0,)})
    for seed in range(5):
        moves = WORLDS["gc"](focus=focus).draw(random.Random(seed))
        assert [move.args for move in moves if move.verb == "pace"] == [(2.0,)]
        assert any(move.verb == "run" and move.args[0].startswith("other") for move in moves)
