"""Statements of people: kept with who, when, why and what."""

from __future__ import annotations

import pytest

from dredge.errors import ConfigError, FormatError
from dredge.gc.run import open_state
from dredge.runs.consents import PEOPLE, Consent, login_name, read_consents, record_consent
from dredge.storage import ObjectWriter
from tests.support.gc import World, make_world

OWN, LIFT_BLOCK = "own", "lift-block"


def _state(world: World) -> ObjectWriter:
    return open_state(world.lake.namespace)


def test_a_statement_is_kept_with_who_when_why_and_what() -> None:
    world = make_world()
    state = _state(world)
    written = record_consent(state, OWN, "lake", "  the server moved  ", {"url": "http://b"}, "ada")
    assert read_consents(state) == [written]
    assert written == Consent(
        consent_id=written.consent_id,
        kind=OWN,
        repository="lake",
        who="ada",
        at=world.lake.clock.now,
        why="the server moved",
        what={"url": "http://b"},
    )
    assert record_consent(state, OWN, "lake", "again").who == login_name()


def test_statements_are_read_by_kind_and_the_oldest_first() -> None:
    world = make_world()
    state = _state(world)
    for number, kind in enumerate((OWN, LIFT_BLOCK, OWN)):
        record_consent(state, kind, "lake", f"reason {number}")
        world.age(days=1)
    assert [found.why for found in read_consents(state)] == ["reason 0", "reason 1", "reason 2"]
    assert [found.why for found in read_consents(state, OWN)] == ["reason 0", "reason 2"]
    assert read_consents(state, "acknowledge") == []


@pytest.mark.parametrize("why", ["", "  \n"])
def test_without_a_reason_nothing_is_kept(why: str) -> None:
    state = _state(make_world())
    with pytest.raises(ConfigError):
        record_consent(state, OWN, "lake", why)
    assert read_consents(state) == []


def test_a_damaged_statement_is_an_error_that_names_the_file() -> None:
    state = _state(make_world())
    name = f"{PEOPLE}/{record_consent(state, OWN, 'lake', 'why').consent_id}-{OWN}.json"
    state.put(name, b'{"kind": "own"}')
    with pytest.raises(FormatError, match=name):
        read_consents(state, OWN)
    assert read_consents(state, LIFT_BLOCK) == []
