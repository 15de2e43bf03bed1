"""What a repository's partition is: by its record, and without one by what is in it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dredge import xid
from dredge.trash.findings import HELD
from dredge.trash.look import Look, read_look
from dredge.trash.partition_rules import Classifier, one_row
from dredge.trash.settings import TrashMargins
from tests.support.kv_world import DAY, METARANGE, START, World

MARGINS = TrashMargins()
INSTANT = timedelta(microseconds=1)
EMPTY = ""
"""A commit without a metarange: the first one of a repository."""


def classifier_of(look: Look) -> Classifier:
    return Classifier(look, START, MARGINS)


def fill(world: World, partition: bytes, parts: str) -> None:
    """Write parts of a repository; a branch or a tag names the commit that comes before it, or one that is gone."""
    made = ""
    for part in parts.split(", "):
        match part:
            case "first" | "first with data":
                made = world.commit(partition, metarange=EMPTY if part == "first" else METARANGE).id
                world.store.now += DAY
            case "first of generation 2":
                found = world.commit(partition, metarange=EMPTY)
                changed = replace(found, generation=2)
                world.kv.set(partition, b"commits/" + found.id.encode(), changed.encode())
            case "history":
                made = world.commit(partition, parents=[made or "gone"]).id
            case "main" | "side" | "main gone":
                name, _, gone = part.partition(" ")
                world.branch(partition, name, gone or made, world.token("pond", name))
            case "tag" | "tag gone":
                world.tag(partition, "v1", "gone" if part == "tag gone" else made)
            case "staged":
                sealed = world.token("pond", "main")
                world.branch(partition, "main", "gone", world.token("pond", "main"), sealed=[sealed])
                world.stage(sealed)
            case key:
                world.kv.set(partition, key.encode(), b"")
    world.store.now = START


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ("history, main, tag gone", "lost"),
        ("history, tag, main gone", "lost"),
        ("first, history", "lost"),
        ("first with data", "lost"),
        ("staged", "lost"),
        ("first, main, first", "lost"),
        ("first, main, tag gone", "lost"),
        ("first, main, side", "lost"),
        ("first, first", "unclear"),
        ("first of generation 2", "unclear"),
        ("first of generation 2, main gone", "unclear"),
        ("first, settings/x", "unclear"),
        ("repo-metadata, repo-metadata2", "unclear"),
        ("history, main gone", "unclear"),
        ("tag gone", "unclear"),
        ("first", "zombie"),
        ("first, main", "zombie"),
        ("history", "leftovers"),
        ("settings/x, imports/x, tasks/x, pulls/x, copies/x, repo-metadata", "leftovers"),
    ],
)
def test_a_partition_without_a_record_is_what_its_rows_make_of_it(
    world: World, parts: str, status: str
) -> None:
    """Only the last four may ever go."""
    partition = b"pond-" + xid.new_xid(START - 9 * DAY).encode()
    fill(world, partition, parts)
    assert classifier_of(read_look(world.store)).statuses[partition] == status


@pytest.mark.parametrize(("age", "is_young"), [(DAY - INSTANT, True), (DAY, False), (-DAY, True)])
def test_an_id_is_young_up_to_the_margin_and_when_it_is_of_the_future(
    world: World, age: timedelta, is_young: bool
) -> None:
    assert classifier_of(read_look(world.store)).is_young(START - age) == is_young


@pytest.mark.parametrize(
    ("reasons", "verdict", "code"),
    [({}, "trash", ""), ({"young": "too young"}, "wait", ""), ({"held": "not proved"}, "wait", HELD)],
)
def test_what_is_unused_is_trash_unless_it_is_young_or_held(
    world: World, reasons: dict[str, str], verdict: str, code: str
) -> None:
    row, found = one_row(b"k", b"value"), classifier_of(read_look(world.store))
    finding = found.candidate(b"p", b"k", "kind", "unused", row, since=START - DAY, **reasons)
    assert (finding.verdict, finding.code, finding.since) == (verdict, code, START - DAY)
    assert (finding.rows, finding.size_bytes, finding.digest) == (1, 6, row.digest)
