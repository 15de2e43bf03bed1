"""docs/why-offline.md equals the result of a run: every named blocker, and none for the offline protocol."""

import re

import pytest

from demo.races import races_demo
from tests.simulation.proposals import claims_offline, page
from tests.simulation.proposals.catalogue import Claim, result_of
from tests.simulation.proposals.drawing import lines
from tests.simulation.proposals.explorer import explore, follow
from tests.simulation.proposals.offline import Rules

CLAIMS = [claim for chapter in page.CHAPTERS for claim in chapter.claims]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_a_claim_holds_as_it_is_told(claim: Claim) -> None:
    found = result_of(claim).found
    assert frozenset(found) == claim.expects, {kind: each.moves for kind, each in found.items()}
    for kind, each in found.items():
        assert kind in {trouble.kind for trouble in follow(claim.scene(), each.moves)}
        before = {trouble.kind for trouble in follow(claim.scene(), each.moves[:-1])}
        assert kind not in before or each.later


def test_every_item_that_the_document_names_is_there() -> None:
    named = {
        "1": {"Blocker 1", "Open 1", "Open 2", "Open 3"},
        "2": {"Blocker 1"},
        "3": {"Open 1", "Open 2 (TBD)"},
        "4": {"Open 1 (TBD)", "Assumption 1"},
        "5": {"Race 1", "Race 2", "Race 3", "Race 4", "Move, failures"},
    }
    for chapter in page.CHAPTERS:
        assert named[chapter.number] <= {claim.item for claim in chapter.claims}
        assert any(claim.worst == "loss" for claim in chapter.claims)
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)


def test_the_page_and_the_demo_are_what_a_run_gives() -> None:
    """In one test, as all of it looks at the same scenes."""
    for name, (make, _) in claims_offline.SCENES.items():
        explored = page.explored(make, Rules())
        assert explored.found == {}, name
        assert any("Collector: collected" in end for ends in explored.ends for end in ends), name
    assert set(claims_offline.WEAKENED) == set(claims_offline.RULES)
    for rule, (scene, _) in claims_offline.WEAKENED.items():
        found = page.weakened(rule)
        make = claims_offline.scene_named(scene)[0]
        assert found.trouble in follow(make(claims_offline.without(rule)), found.moves)
    text = page.PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- made: (\w+) -->", text)) == set(page.PARTS)
    assert page.page(text) == text, "made from the code: ./run docs writes it anew"
    assert races_demo(lambda _line: None)


@pytest.mark.long
def test_the_whole_way_twice_loses_nothing() -> None:
    for make, _ in claims_offline.LONG_SCENES.values():
        assert explore(make(Rules())).found == {}


def test_a_schedule_is_told_with_all_its_moves() -> None:
    claim = next(claim for claim in CLAIMS if claim.name == "copies-stale-lock")
    found = result_of(claim).found["stuck"]
    told = list(lines(found))
    assert len(told) == len(found.events) + len(found.later) + 2
    assert [line.split()[0] for line in told if not line.startswith(" ")] == [
        "Mover",
        "…",
        "delete",
        "delete",
        "⇒",
    ]
