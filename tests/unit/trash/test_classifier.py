"""What a repository's partition is: by its record, and without one by what is in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from dredge import xid
from dredge.trash.classifier import Classifier, one_row
from dredge.trash.look import Look, read_look, value_digest
from dredge.trash.margins import TrashMargins
from dredge.trash.sightings import Sighting, Sightings
from tests.support.kv_world import DAY, METARANGE, START, World

MARGINS = TrashMargins()
INSTANT = timedelta(microseconds=1)
EMPTY = ""
"""A commit without a metarange: the first one of a repository."""


def classifier_of(look: Look, before: Sightings | None = None) -> Classifier:
    return Classifier(look, before or Sightings(), START, MARGINS)


def with_head_that_is_there_and_a_tag_that_is_not(world: World, partition: bytes) -> None:
    head = world.commit(partition, parents=["gone"])
    world.branch(partition, "main", head.id, world.token("pond", "main"))
    world.tag(partition, "v1", "gone")


def with_a_tag_that_is_there_and_a_head_that_is_not(world: World, partition: bytes) -> None:
    world.tag(partition, "v1", world.commit(partition, parents=["gone"]).id)
    world.branch(partition, "main", "gone", world.token("pond", "main"))


def with_a_first_commit_and_later_history_and_no_head(world: World, partition: bytes) -> None:
    first = world.commit(partition, metarange=EMPTY)
    world.commit(partition, parents=[first.id])


def with_two_first_commits_and_no_head(world: World, partition: bytes) -> None:
    world.commit(partition, metarange=EMPTY)
    world.store.now += DAY
    world.commit(partition, metarange=EMPTY)
    world.store.now -= DAY


def with_first_commits_of_which_a_branch_names_one(world: World, partition: bytes) -> None:
    first = world.commit(partition, metarange=EMPTY)
    world.store.now += DAY
    world.commit(partition, metarange=EMPTY)
    world.store.now -= DAY
    world.branch(partition, "main", first.id, world.token("pond", "main"))


def with_a_first_commit_of_another_generation(world: World, partition: bytes) -> None:
    made = world.commit(partition, metarange=EMPTY)
    world.kv.set(partition, b"commits/" + made.id.encode(), replace(made, generation=2).encode())


def with_a_first_commit_of_another_generation_and_no_metarange(world: World, partition: bytes) -> None:
    with_a_first_commit_of_another_generation(world, partition)
    world.branch(partition, "main", "gone", world.token("pond", "main"))


def with_a_first_commit_that_has_data(world: World, partition: bytes) -> None:
    world.commit(partition, metarange=METARANGE)


def with_a_first_commit_alone(world: World, partition: bytes) -> None:
    world.commit(partition, metarange=EMPTY)


def with_first_commit_and_branch(world: World, partition: bytes) -> None:
    first = world.commit(partition, metarange=EMPTY)
    world.branch(partition, "main", first.id, world.token("pond", "main"))


def with_first_commit_branch_and_tag(world: World, partition: bytes) -> None:
    with_first_commit_and_branch(world, partition)
    world.tag(partition, "v1", "gone")


def with_two_branches_on_the_first_commit(world: World, partition: bytes) -> None:
    with_first_commit_and_branch(world, partition)
    first = next(iter(world.kv.scan(partition, b"commits/"))).key[8:].decode()
    world.branch(partition, "side", first, world.token("pond", "side"))


def with_first_commit_and_settings(world: World, partition: bytes) -> None:
    world.commit(partition, metarange=EMPTY)
    world.kv.set(partition, b"settings/x", b"")


def with_staged_rows(world: World, partition: bytes) -> None:
    sealed = world.token("pond", "main")
    world.branch(partition, "main", "gone", world.token("pond", "main"), sealed=[sealed])
    world.stage(sealed)


def with_history_that_nothing_leads_to(world: World, partition: bytes) -> None:
    world.commit(partition, parents=["gone"])


def with_history_and_a_branch_whose_commit_is_lost(world: World, partition: bytes) -> None:
    with_history_that_nothing_leads_to(world, partition)
    world.branch(partition, "main", "gone", world.token("pond", "main"))


def with_a_tag_whose_commit_is_lost(world: World, partition: bytes) -> None:
    world.tag(partition, "v1", "gone")


def with_every_key_that_a_delete_may_leave(world: World, partition: bytes) -> None:
    for key in (b"settings/x", b"imports/x", b"tasks/x", b"pulls/x", b"copies/x", b"repo-metadata"):
        world.kv.set(partition, key, b"")


def with_a_known_and_an_unknown_key(world: World, partition: bytes) -> None:
    world.kv.set(partition, b"repo-metadata", b"")
    world.kv.set(partition, b"repo-metadata2", b"")


@pytest.mark.parametrize(
    ("fill", "status"),
    [
        (with_head_that_is_there_and_a_tag_that_is_not, "lost"),
        (with_a_tag_that_is_there_and_a_head_that_is_not, "lost"),
        (with_a_first_commit_and_later_history_and_no_head, "lost"),
        (with_a_first_commit_that_has_data, "lost"),
        (with_staged_rows, "lost"),
        (with_first_commits_of_which_a_branch_names_one, "lost"),
        (with_first_commit_branch_and_tag, "lost"),
        (with_two_branches_on_the_first_commit, "lost"),
        (with_two_first_commits_and_no_head, "unclear"),
        (with_a_first_commit_of_another_generation, "unclear"),
        (with_a_first_commit_of_another_generation_and_no_metarange, "unclear"),
        (with_first_commit_and_settings, "unclear"),
        (with_a_known_and_an_unknown_key, "unclear"),
        (with_history_and_a_branch_whose_commit_is_lost, "unclear"),
        (with_a_tag_whose_commit_is_lost, "unclear"),
        (with_a_first_commit_alone, "zombie"),
        (with_first_commit_and_branch, "zombie"),
        (with_history_that_nothing_leads_to, "leftovers"),
        (with_every_key_that_a_delete_may_leave, "leftovers"),
    ],
)
def test_a_partition_without_a_record_is_what_its_rows_make_of_it(
    world: World, fill: Callable[[World, bytes], None], status: str
) -> None:
    """Only the last four may ever go."""
    partition = b"pond-" + xid.new_xid(START - 9 * DAY).encode()
    fill(world, partition)
    assert classifier_of(read_look(world.store)).statuses[partition] == status


@pytest.mark.parametrize(("age", "is_young"), [(DAY - INSTANT, True), (DAY, False), (-DAY, True)])
def test_an_id_is_young_up_to_the_margin_and_when_it_is_of_the_future(
    world: World, age: timedelta, is_young: bool
) -> None:
    assert classifier_of(read_look(world.store)).is_young(START - age) == is_young


@pytest.mark.parametrize(
    ("seen", "digest", "young", "verdict"),
    [
        (DAY, "same", "", "trash"),
        (DAY - INSTANT, "same", "", "wait"),
        (9 * DAY, "other", "", "wait"),
        (9 * DAY, "same", "too young", "wait"),
        (None, "", "", "wait"),
    ],
)
def test_what_is_unused_settles_once_it_was_seen_with_these_bytes_a_grace_ago(
    world: World, seen: timedelta | None, digest: str, young: str, verdict: str
) -> None:
    row = one_row(b"k", b"value")
    digests = {"same": row.digest, "other": value_digest(b"other")}
    before = [] if seen is None else [Sighting(b"p", b"k", digests[digest], START - seen)]
    found = classifier_of(read_look(world.store), Sightings(before, START - DAY))
    finding = found.settle(b"p", b"k", "kind", "unused", row, since=START - DAY, young=young)
    assert finding.verdict == verdict
    first = START - seen if seen and digest == "same" else START
    assert found.seen == [Sighting(b"p", b"k", row.digest, first)]
    assert (finding.first_seen, finding.since) == (first, START - DAY)
    assert (finding.rows, finding.size_bytes, finding.digest) == (1, 6, row.digest)
