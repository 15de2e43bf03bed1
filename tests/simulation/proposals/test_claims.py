"""What docs/why-offline.md says is what a run gives: every named blocker, and that the offline protocol has none."""

from __future__ import annotations

import re

import pytest

from demo.races import races_demo
from tests.simulation.proposals import claims_offline, claims_online, page
from tests.simulation.proposals.catalogue import Claim, result_of
from tests.simulation.proposals.drawing import lines, mermaid
from tests.simulation.proposals.explorer import explore, follow, sample
from tests.simulation.proposals.offline import Rules
from tests.simulation.proposals.online import Design

CLAIMS = [claim for chapter in page.CHAPTERS for claim in chapter.claims]
RUN = [claim for claim in CLAIMS if claim.scene is not None]


@pytest.mark.parametrize("claim", RUN, ids=lambda claim: claim.name)
def test_a_claim_holds_as_it_is_told(claim: Claim) -> None:
    result = result_of(claim)
    assert result.as_expected, {kind: found.moves for kind, found in result.explored.found.items()}
    assert claim.scene is not None
    for kind, found in result.explored.found.items():
        assert kind in {trouble.kind for trouble in follow(claim.scene(), found.moves)}
        assert [trouble.kind for trouble in follow(claim.scene(), found.moves[:-1])].count(
            kind
        ) == 0 or found.later


def test_every_item_that_the_document_names_is_there() -> None:
    named = {
        "1": {"Blocker 1", "Open 1", "Open 2", "Open 3", "Performance"},
        "2": {"Blocker 1", "Cost"},
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
    for name, (make_online, _) in claims_online.SCENES.items():
        assert page.explored(make_online, Design()).found == {}, name
    assert set(claims_offline.WEAKENED) == set(claims_offline.RULES)
    assert set(claims_online.WEAKENED) == set(claims_online.RULES)
    for rule, (scene, _) in claims_offline.WEAKENED.items():
        found = page.weakened(rule)
        make = claims_offline.scene_named(scene)[0]
        assert found.trouble in follow(make(claims_offline.without(rule)), found.moves)
    text = page.PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- made: (\w+) -->", text)) == set(page.PARTS)
    assert page.page(text) == text, "made from the code: ./run docs writes it anew"
    said: list[str] = []
    assert races_demo(said.append)
    assert sum("⇒ LOSS" in line for line in said) == len(page.CHAPTERS)


def test_many_at_once_lose_nothing_and_without_a_rule_something() -> None:
    whole = sample(claims_offline.crowd(Rules()), 12, 60)
    assert whole.found == {}
    assert any("Collector: collected" in ends for ends in whole.ends)
    assert (
        "loss"
        in sample(claims_offline.crowd(claims_offline.without("min_age", "recheck", "lease")), 12, 60).found
    )


@pytest.mark.long
def test_the_whole_way_twice_loses_nothing() -> None:
    for make, _ in claims_offline.LONG_SCENES.values():
        assert explore(make(Rules())).found == {}


@pytest.mark.long
def test_reading_until_no_token_is_new_is_not_reading_at_one_moment() -> None:
    (make, _) = claims_offline.LONG_SCENES["leave-twice"]
    assert set(explore(make(Rules(only_tokens=True))).found) == {"loss"}


@pytest.mark.long
def test_very_many_at_once_lose_nothing() -> None:
    for seed in range(4):
        assert sample(claims_offline.crowd(Rules()), seed, 1000).found == {}


def test_a_schedule_is_drawn_with_all_its_moves() -> None:
    result = result_of(next(claim for claim in CLAIMS if claim.name == "copies-stale-lock"))
    assert result.found is not None
    drawn = mermaid(result.found)
    assert drawn.count("->>") == 3
    assert "Note over Mover: dies" in drawn
    assert "STUCK: delete x is refused now and always: x is locked" in drawn
    told = list(lines(result.found))
    assert [line.split()[0] for line in told[:4]] == ["1", "2", "3", "4"]
    assert "when all is quiet" in told[4]
