"""Every dump of a real server gives exactly its truth."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest

from dredge.trash.finding import TrashFinding
from dredge.trash.look import Look, look_through
from dredge.trash.margins import TrashMargins
from dredge.trash.rules import Classification, classify
from dredge.trash.sightings import Sightings
from tests.support.kv_world import TRUTH, dump
from tests.support.memory_rows import FrozenView

MARGINS = TrashMargins(grace=timedelta(hours=TRUTH["grace_hours"]))


@cache
def look_at(name: str) -> Look:
    return look_through(FrozenView(dump(name)))


def judge_at(story: str, seconds: float, before: Sightings | None = None) -> Classification:
    return classify(look_at(story), before or Sightings(), datetime.fromtimestamp(seconds, UTC), MARGINS)


def name(partition: bytes, key: bytes | None) -> tuple[str, str | None]:
    return partition.decode(), None if key is None else key.decode()


def by_name(classified: Classification) -> dict[tuple[str, str | None], TrashFinding]:
    found = {name(finding.partition, finding.key): finding for finding in classified.findings}
    assert len(found) == len(classified.findings), "something was judged twice"
    return found


@pytest.mark.parametrize("story", sorted(TRUTH["dumps"]))
def test_findings_are_exactly_the_truth(story: str) -> None:
    truth = TRUTH["dumps"][story]
    first = judge_at(story, truth["looks"][0])
    last = first
    for look in truth["looks"][1:]:
        last = judge_at(story, look, last.sightings)

    expected = {(f["partition"], f.get("key")): f for f in truth["findings"]}
    found = by_name(last)
    assert {at: (f.kind, f.verdict) for at, f in found.items()} == {
        at: (f["kind"], f["verdict"]) for at, f in expected.items()
    }
    assert {at: f.verdict for at, f in by_name(first).items()} == {
        at: f["first_look"] for at, f in expected.items()
    }
    for live in truth["live_but_suspicious"]:
        assert (live["partition"], live.get("key")) not in found
        assert (live["partition"], None) not in found


@pytest.mark.parametrize("sequence", TRUTH["sequences"], ids=lambda s: "-".join(s["dumps"]))
def test_one_dump_after_the_other_gives_only_what_was_unused_in_both(sequence: dict[str, Any]) -> None:
    start = TRUTH["dumps"][sequence["dumps"][0]]["taken"]
    classified = Classification((), Sightings())
    for story, day in zip(sequence["dumps"], sequence["looks_days"], strict=True):
        classified = judge_at(story, start + day * 86400, classified.sightings)
    trash = {
        f"{f.partition.decode()} {f.kind}"
        for f in classified.findings
        if f.verdict == "trash" and f.key is None
    }
    assert trash == set(sequence["trash_partitions"])


@pytest.mark.parametrize("story", sorted(TRUTH["dumps"]))
def test_no_finding_touches_credentials_or_the_schema(story: str) -> None:
    classified = judge_at(story, TRUTH["dumps"][story]["looks"][-1] + 365 * 86400)
    classified = judge_at(story, TRUTH["dumps"][story]["looks"][-1] + 730 * 86400, classified.sightings)
    touched = {f.partition for f in classified.findings if f.verdict == "trash"}
    assert not touched & {b"auth", b"basicAuth", b"kv-internal-metadata", b"graveler", b"usage"}
