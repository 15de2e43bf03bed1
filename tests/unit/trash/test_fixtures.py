"""Every dump of a real server gives exactly its truth."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest

from dredge.trash.findings import TrashFinding, TrashMargins
from dredge.trash.look import Look, look_through
from dredge.trash.rules import classify
from dredge.trash.waiting import advance_waiting, no_list
from tests.support.kv_world import TRUTH, dump
from tests.support.memory_rows import FrozenView

MARGINS = TrashMargins(grace=timedelta(hours=TRUTH["grace_hours"]))


@cache
def look_at(name: str) -> Look:
    return look_through(FrozenView(dump(name)))


class Judge:
    def __init__(self) -> None:
        self.waiting = no_list()
        self.looks = 0

    def at(self, story: str, seconds: float) -> tuple[TrashFinding, ...]:
        self.looks += 1
        now = datetime.fromtimestamp(seconds, UTC)
        found = classify(look_at(story), now, MARGINS)
        return advance_waiting(self.waiting, found, f"look {self.looks}", now, now, MARGINS)


def name(partition: bytes, key: bytes | None) -> tuple[str, str | None]:
    return partition.decode(), None if key is None else key.decode()


def by_name(findings: Sequence[TrashFinding]) -> dict[tuple[str, str | None], TrashFinding]:
    found = {name(finding.partition, finding.key): finding for finding in findings}
    assert len(found) == len(findings), "something was judged twice"
    return found


@pytest.mark.parametrize("story", sorted(TRUTH["dumps"]))
def test_findings_are_exactly_the_truth(story: str) -> None:
    truth = TRUTH["dumps"][story]
    first, at = Judge().at(story, truth["looks"][0]), truth["looks"][-1]
    last = classify(look_at(story), datetime.fromtimestamp(at, UTC), MARGINS) if truth["looks"][1:] else first

    expected = {(f["partition"], f.get("key")): f for f in truth["findings"]}
    found = by_name(last)
    assert {at: (f.kind, f.verdict) for at, f in found.items()} == {
        at: (f["kind"], f["verdict"]) for at, f in expected.items()
    }
    assert by_name(first).keys() == expected.keys()
    assert not [finding for finding in first if finding.verdict == "trash"]
    for live in truth["live_but_suspicious"]:
        assert (live["partition"], live.get("key")) not in found
        assert (live["partition"], None) not in found


@pytest.mark.parametrize("sequence", TRUTH["sequences"], ids=lambda s: "-".join(s["dumps"]))
def test_one_dump_after_the_other_gives_only_what_was_unused_in_both(sequence: dict[str, Any]) -> None:
    start = TRUTH["dumps"][sequence["dumps"][0]]["taken"]
    judge, findings = Judge(), tuple[TrashFinding, ...]()
    for story, day in zip(sequence["dumps"], sequence["looks_days"], strict=True):
        findings = judge.at(story, start + day * 86400)
    trash = {f"{f.partition.decode()} {f.kind}" for f in findings if f.verdict == "trash" and f.key is None}
    assert trash == set(sequence["trash_partitions"])


@pytest.mark.parametrize("story", sorted(TRUTH["dumps"]))
def test_no_finding_touches_credentials_or_the_schema(story: str) -> None:
    judge, last = Judge(), TRUTH["dumps"][story]["looks"][-1]
    judge.at(story, last + 365 * 86400)
    touched = {f.partition for f in judge.at(story, last + 730 * 86400) if f.verdict == "trash"}
    assert not touched & {b"auth", b"basicAuth", b"kv-internal-metadata", b"graveler", b"usage"}
