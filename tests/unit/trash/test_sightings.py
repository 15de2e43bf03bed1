"""What is remembered of unused things from one look to the next."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.errors import FormatError
from dredge.runs.payload import from_json, to_json
from dredge.trash.sightings import Sighting, Sightings
from tests.support.kv_world import DAY, START

WHOLE = Sighting(b"p\xff", None, "d1", START)
ROW = Sighting(b"p\xff", b"k", "d2", START + DAY)
OTHER = Sighting(b"q", b"k", "d3", START)


def test_only_the_very_bytes_of_an_earlier_look_count_as_seen() -> None:
    known = Sightings((WHOLE, ROW), START)
    assert known.since(b"p\xff", None, "d1", START + 2 * DAY) == WHOLE
    assert known.since(b"p\xff", b"k", "d2", START + 2 * DAY) == ROW
    now = START + 2 * DAY
    assert known.since(b"p\xff", None, "d2", now).first_seen == now
    assert known.since(b"q", None, "d1", now) == Sighting(b"q", None, "d1", now)


def test_what_is_put_back_is_forgotten_row_and_partition() -> None:
    known = Sightings((WHOLE, ROW, OTHER), START)
    assert known.of_row(b"p\xff", b"k") == [(b"p\xff", None), (b"p\xff", b"k")]
    assert known.of_row(b"p\xff", b"other") == [(b"p\xff", None)]
    assert known.of_row(b"q", b"other") == []
    left = known.without([(b"p\xff", None), (b"q", b"k")])
    assert to_json(left) == to_json(Sightings((ROW,), START))
    assert (b"p\xff", b"k") in left
    assert (b"p\xff", None) not in left
    assert len(left) == 1


def test_sightings_come_back_as_they_were() -> None:
    known = Sightings((WHOLE, ROW), START)
    back = from_json(Sightings, to_json(known))
    assert back.looked == START
    assert to_json(back) == to_json(known)
    assert back.since(b"p\xff", b"k", "d2", START + 9 * DAY) == ROW
    assert back.since(b"p\xff", None, "d1", START + 9 * DAY) == WHOLE
    assert from_json(Sightings, to_json(Sightings())).looked is None


@pytest.mark.parametrize(
    "change", [{"partition": "cA=*="}, {"key": "cA=*="}, {"first_seen": "yesterday"}, {"digest": ...}]
)
def test_damaged_sightings_are_not_read(change: dict[str, Any]) -> None:
    """A name with other bytes would count for something that was never seen."""
    value = to_json(Sightings((ROW,), START))
    (line,) = value["sightings"]
    line = {name: part for name, part in (line | change).items() if part is not ...}
    with pytest.raises(FormatError):
        from_json(Sightings, value | {"sightings": [line]})
