"""docs/why-offline.md equals the result of a run: every named blocker, and none for the offline protocol."""

import re
from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

from demo.races import races_demo
from tests.simulation.proposals import claims_offline, page
from tests.simulation.proposals.catalogue import Claim, result_of
from tests.simulation.proposals.drawing import lines
from tests.simulation.proposals.explorer import explore, follow
from tests.simulation.proposals.offline import Rules

#: Explored for more than a second each, or made of such; the model is no code of the product.
LONG = {"commit", "late-link", "restore", "dies", "min_age", "lease", "young_commits", "offline", "weakened"}
CLAIMS = [claim for chapter in page.CHAPTERS for claim in chapter.claims]


def daily(names: Iterable[str]) -> list[ParameterSet]:
    """Each name, those of LONG only for `./run test long`."""
    return [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in names]


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


@pytest.mark.parametrize("name", daily(claims_offline.SCENES))
def test_nothing_beside_the_offline_protocol_loses_an_object(name: str) -> None:
    explored = page.explored(claims_offline.SCENES[name][0], Rules())
    assert explored.found == {}
    assert any("Collector: collected" in end for ends in explored.ends for end in ends)


@pytest.mark.parametrize("rule", daily(claims_offline.RULES))
def test_without_a_rule_the_offline_protocol_loses_an_object(rule: str) -> None:
    found = page.weakened(rule)
    make = claims_offline.scene_named(claims_offline.WEAKENED[rule][0])[0]
    assert found.trouble in follow(make(claims_offline.without(rule)), found.moves)


@pytest.mark.parametrize("part", daily(page.PARTS))
def test_a_part_of_the_page_is_what_a_run_gives(part: str) -> None:
    """Made from the code: ./run docs writes it anew."""
    text = page.PAGE.read_text(encoding="utf-8")
    made = {
        name: whole for whole, name in re.findall(r"(<!-- made: (\w+) -->\n.*?<!-- end -->)", text, re.DOTALL)
    }
    assert made.keys() == page.PARTS.keys()
    assert page.page(made[part]) == made[part]


@pytest.mark.long
def test_the_demo_holds() -> None:
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
