"""What must not be called trash, rule by rule; breaking the rule makes its test fail."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.graveler import messages, xid
from dredge.kv import Entry
from dredge.trash.finding import TrashFinding
from dredge.trash.look import look_through, read_look
from dredge.trash.margins import TrashMargins
from dredge.trash.rules import classify
from dredge.trash.sightings import Sightings
from tests.support.kv_world import DAY, START, LiveView, World

MARGINS = TrashMargins()


class Watcher:
    """Looks at a world again and again, as runs of the cleaner do."""

    def __init__(self, world: World, margins: TrashMargins = MARGINS) -> None:
        self.world = world
        self.margins = margins
        self.sightings = Sightings()

    def look(self, after: timedelta = timedelta(0)) -> dict[tuple[bytes, bytes | None], TrashFinding]:
        self.world.store.now += after
        classified = classify(read_look(self.world.store), self.sightings, self.world.now, self.margins)
        self.sightings = classified.sightings
        return {(f.partition, f.key): f for f in classified.findings}

    def verdict_of(
        self, partition: bytes, key: bytes | None = None, after: timedelta = timedelta(0)
    ) -> tuple[str, str] | None:
        found = self.look(after).get((partition, key))
        return (found.kind, found.verdict) if found else None


@pytest.fixture
def world() -> World:
    made = World()
    made.repository("keeper")
    return made


@pytest.fixture
def watcher(world: World) -> Watcher:
    return Watcher(world)


def test_a_live_repository_has_no_findings(world: World, watcher: Watcher) -> None:
    partition, token = world.repository("lake")
    world.stage(token)
    world.import_status(partition, world.now)
    assert watcher.look(DAY) == {}
    assert watcher.look(DAY / 2) == {}


# Repository partitions


def test_a_young_instance_without_a_record_is_not_trash_however_often_it_is_seen(
    world: World, watcher: Watcher
) -> None:
    partition, _ = world.beginning(
        "lake", uid=xid.new_xid(world.now + 2 * DAY)
    )  # seen before its time is old enough
    assert watcher.verdict_of(partition) == ("zombie-create", "wait")
    assert watcher.verdict_of(partition, after=2 * DAY) == ("zombie-create", "wait")
    assert watcher.verdict_of(partition, after=DAY - timedelta(seconds=2)) == ("zombie-create", "wait")
    assert watcher.verdict_of(partition, after=timedelta(seconds=2)) == ("zombie-create", "trash")


def test_an_old_zombie_needs_two_looks_a_grace_apart(world: World, watcher: Watcher) -> None:
    partition, _ = world.beginning("lake")
    assert watcher.verdict_of(partition, after=9 * DAY) == ("zombie-create", "wait")
    assert watcher.verdict_of(partition, after=DAY - timedelta(seconds=1)) == ("zombie-create", "wait")
    assert watcher.verdict_of(partition, after=timedelta(seconds=1)) == ("zombie-create", "trash")


def test_a_zombie_is_only_what_a_create_leaves(world: World, watcher: Watcher) -> None:
    staged, token = world.beginning("staged")
    world.stage(token)
    tagged, _ = world.beginning("tagged")
    world.tag(tagged, "t", "nowhere")
    two_branches, _ = world.beginning("two-branches")
    world.branch(two_branches, "other", "nowhere", world.token("two-branches", "other"))
    same_head, _ = world.beginning("same-head")
    first = next(iter(world.kv.scan(same_head, b"commits/"))).key[8:].decode()
    world.branch(same_head, "other", first, world.token("same-head", "other"))
    imported = b"imported-" + xid.new_xid(world.now).encode()
    world.branch(imported, "main", world.commit(imported).id, world.token("imported", "main"))
    with_settings, _ = world.beginning("with-settings")
    world.kv.set(with_settings, b"settings/protected_branches", b"")
    elsewhere, _ = world.beginning("elsewhere", branch=None)
    world.branch(elsewhere, "main", "nowhere", world.token("elsewhere", "main"))
    history, _ = world.beginning("history")
    world.commit(history, parents=["x"])
    watcher.look(2 * DAY)
    found = watcher.look(2 * DAY)
    for partition in (staged, tagged, two_branches, same_head, imported, with_settings, elsewhere, history):
        assert found[partition, None].verdict == "report", partition


def test_a_lost_repository_is_reported_and_never_trash(world: World, watcher: Watcher) -> None:
    partition, token = world.beginning("pond")
    second = world.commit(partition, parents=[world.commit(partition, metarange="").id])
    world.branch(partition, "main", second.id, token)
    for _ in range(5):
        assert watcher.verdict_of(partition, after=2 * DAY) == ("lost-repository", "report")


def test_a_usable_head_alone_makes_a_repository_lost(world: World, watcher: Watcher) -> None:
    by_branch = b"pond-" + xid.new_xid(world.now).encode()
    head = world.commit(by_branch, parents=["gone"])
    world.branch(by_branch, "main", head.id, world.token("pond", "main"))
    by_tag = b"lagoon-" + xid.new_xid(world.now).encode()
    world.tag(by_tag, "v1", world.commit(by_tag, parents=["gone"]).id)
    watcher.look(2 * DAY)
    found = watcher.look(2 * DAY)
    assert {found[p, None].kind for p in (by_branch, by_tag)} == {"lost-repository"}
    assert {found[p, None].verdict for p in (by_branch, by_tag)} == {"report"}


def test_staged_rows_make_a_recordless_partition_lost_and_stay_with_it(
    world: World, watcher: Watcher
) -> None:
    partition, token = world.beginning("pond")
    sealed = world.token("pond", "main")
    world.branch(partition, "main", "gone", token, sealed=[sealed])
    world.stage(sealed)
    watcher.look(2 * DAY)
    found = watcher.look(2 * DAY)
    assert found[partition, None].verdict == "report"
    assert (found[sealed.encode(), None].kind, found[sealed.encode(), None].verdict) == ("staging", "report")


def test_leftovers_with_unknown_keys_are_not_trash(world: World, watcher: Watcher) -> None:
    partition = b"gulf-" + xid.new_xid(world.now).encode()
    world.import_status(partition, world.now)
    world.kv.set(partition, b"novelties/1", b"?")
    watcher.look(2 * DAY)
    assert watcher.verdict_of(partition, after=2 * DAY) == ("repository-unclear", "report")


def test_tracked_copies_are_leftovers_of_a_deletion_too(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("lake")
    copy = messages.encode(messages.Entry(address="data/a/b"))
    world.kv.set(partition, b"copies/dc0oaahksdu9evk6qvog", copy)
    assert watcher.look(2 * DAY) == {}, "live"
    for entry in list(world.kv.scan(partition)):
        if not entry.key.startswith(b"copies/"):
            world.kv.delete(partition, entry.key)
    world.kv.delete(b"graveler", b"repos/lake")
    assert watcher.verdict_of(partition) == ("deleted-repository-leftovers", "wait")
    assert watcher.verdict_of(partition, after=2 * DAY) == ("deleted-repository-leftovers", "trash")


def test_leftovers_that_change_start_over(world: World, watcher: Watcher) -> None:
    partition = b"gulf-" + xid.new_xid(world.now).encode()
    world.import_status(partition, world.now)
    watcher.look(2 * DAY)
    world.kv.set(partition, b"settings/protected_branches", b"late")
    assert watcher.verdict_of(partition, after=2 * DAY) == ("deleted-repository-leftovers", "wait")
    assert watcher.verdict_of(partition, after=DAY) == ("deleted-repository-leftovers", "trash")


def test_a_repository_in_deletion_waits_for_its_delete(world: World, watcher: Watcher) -> None:
    partition, token = world.repository("lake")
    world.record(partition, state=1)
    world.stage(token)
    world.import_status(partition, world.now - 9 * DAY)
    world.pull_index(partition, "a", "b")
    owner = world.owner("lake", "gone", world.now)
    world.run("lake", world.now - 5 * DAY)
    world.run("lake", world.now, with_run=False)
    watcher.look(9 * DAY)
    found = watcher.look(9 * DAY)
    assert b"actions" not in {partition for partition, _ in found}
    assert all(finding.verdict != "trash" for finding in found.values())
    assert found[token.encode(), None].verdict == "wait"
    assert found[b"graveler", b"repos/lake"].verdict == "report"
    assert (b"mc-ownership", owner) not in found


def test_another_life_of_the_name_protects_nothing_and_is_not_touched(world: World, watcher: Watcher) -> None:
    old, _ = world.beginning("twin", uid=xid.new_xid(START - 9 * DAY))
    new, _ = world.repository("twin")
    watcher.look(2 * DAY)
    found = watcher.look(2 * DAY)
    assert found[old, None].verdict == "trash"
    assert (new, None) not in found


def test_a_bare_repository_is_legitimate(world: World, watcher: Watcher) -> None:
    partition = b"barely-" + xid.new_xid(world.now).encode()
    world.record(partition)
    key = world.pull_index(partition, "a", "b")
    watcher.look(2 * DAY)
    found = watcher.look(2 * DAY)
    assert found.keys() == {(b"pulls", key)}


def test_the_name_of_a_repository_may_look_like_an_instance(world: World, watcher: Watcher) -> None:
    """Records decide first: `lake-<xid>` may be a repository's name."""
    inner = "lake-" + xid.new_xid(START - 9 * DAY)
    _, token = world.repository(inner)
    world.stage(token)
    watcher.look(2 * DAY)
    assert watcher.look(2 * DAY) == {}


# Staging


def test_a_token_needs_two_looks_with_unchanged_bytes(world: World, watcher: Watcher) -> None:
    token = world.stage(world.token("keeper", "main"))
    assert watcher.verdict_of(token, after=99 * DAY) == ("staging-orphan", "wait")
    assert watcher.verdict_of(token, after=DAY / 2) == ("staging-orphan", "wait")
    world.stage(token.decode(), "a/3")
    assert watcher.verdict_of(token, after=DAY) == ("staging-orphan", "wait")
    world.kv.set(token, b"a/3", b"changed")
    assert watcher.verdict_of(token, after=DAY) == ("staging-orphan", "wait")
    assert watcher.verdict_of(token, after=DAY) == ("staging-orphan", "trash")


def test_a_token_that_was_in_use_between_two_looks_starts_over(world: World, watcher: Watcher) -> None:
    partition, main = world.repository("lake")
    token = world.stage(world.token("lake", "main"))
    assert watcher.verdict_of(token) == ("staging-orphan", "wait")
    head = next(iter(watcher.world.kv.scan(partition, b"commits/"))).key[8:].decode()
    world.branch(partition, "main", head, token.decode(), sealed=[main])
    assert watcher.verdict_of(token, after=DAY) is None
    world.branch(partition, "main", head, main)
    assert watcher.verdict_of(token, after=DAY) == ("staging-orphan", "wait")


def test_sealed_tokens_are_as_live_as_the_current_one(world: World, watcher: Watcher) -> None:
    partition, token = world.repository("lake")
    sealed = [world.token("lake", "main") for _ in range(3)]
    for each in (token, *sealed):
        world.stage(each)
    world.branch(partition, "main", "head", token, sealed=sealed)
    watcher.look(2 * DAY)
    assert not {finding.partition for finding in watcher.look(2 * DAY).values()} - {partition}


def test_a_branch_of_any_repository_keeps_a_token_whatever_its_text(world: World, watcher: Watcher) -> None:
    """`lake-a` with branch `b` and `lake` with branch `a-b` have the same token text."""
    partition, _ = world.repository("other")
    token = world.stage(world.token("lake", "a-b"))
    world.branch(partition, "strange", "head", token.decode())
    watcher.look(2 * DAY)
    assert (token, None) not in watcher.look(2 * DAY)


def test_a_queued_token_is_trash_at_once_and_its_marker_waits(world: World, watcher: Watcher) -> None:
    token = world.token("keeper", "main")
    world.stage(token)
    world.queue(token)
    found = watcher.look()
    assert found[token.encode(), None].verdict == "trash"
    assert found[b"cleanup-tokens", token.encode()].verdict == "wait"


def test_a_queued_token_that_a_branch_names_is_live(world: World, watcher: Watcher) -> None:
    _, token = world.repository("lake")
    world.stage(token)
    world.queue(token)
    watcher.look(2 * DAY)
    found = watcher.look(2 * DAY)
    assert found[token.encode(), None].verdict == "report"
    assert found[b"cleanup-tokens", token.encode()].kind == "marker-of-live-token"
    assert found[b"cleanup-tokens", token.encode()].verdict == "report"


def test_a_marker_goes_only_when_its_partition_was_empty_for_a_grace(world: World, watcher: Watcher) -> None:
    token = world.token("keeper", "main").encode()
    world.queue(token.decode())
    assert watcher.verdict_of(b"cleanup-tokens", token) == ("marker", "wait")
    world.stage(token.decode())
    assert watcher.verdict_of(b"cleanup-tokens", token, DAY) == ("marker", "wait")
    for row in list(world.kv.scan(token)):
        world.kv.delete(token, row.key)
    assert watcher.verdict_of(b"cleanup-tokens", token, DAY) == ("marker", "wait")
    assert watcher.verdict_of(b"cleanup-tokens", token, DAY) == ("marker", "trash")


def test_staging_of_an_import_belongs_to_its_caller(world: World, watcher: Watcher) -> None:
    token = world.stage("import-ingest_range:00000000-0000-4000-8000-000000000000")
    watcher.look(2 * DAY)
    assert watcher.verdict_of(token, after=9 * DAY) == ("unknown", "report")


@pytest.mark.parametrize(
    "partition",
    [
        b"lake",
        b"lake-nothing",
        b"lake-main:not-a-uuid",
        b"Lake-main:00000000-0000-4000-8000-000000000000",
        b"\xff-main:00000000-0000-4000-8000-000000000000",
        b"lake-dc0o931ksdu976aheec",
        b"la-dc0o931ksdu976aheea0",
        b"gravelers",
    ],
)
def test_unknown_partitions_are_never_touched(world: World, watcher: Watcher, partition: bytes) -> None:
    world.kv.set(partition, b"k", b"v")
    watcher.look(9 * DAY)
    assert watcher.verdict_of(partition, after=99 * DAY) == ("unknown", "report")


# Keys


def test_an_import_or_task_lives_48_hours_from_its_last_update(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("lake")
    key = world.import_status(partition, world.now)
    task = messages.GarbageCollectionPrepareStatus(
        task=messages.Task(id="t", updated_at=messages.to_timestamp(world.now))
    )
    world.kv.set(partition, b"tasks/t", messages.encode(task))
    assert watcher.look(2 * DAY - timedelta(seconds=1)) == {}
    found = watcher.look(timedelta(seconds=1))
    assert {(f.key, f.kind, f.verdict) for f in found.values()} == {
        (key, "import-expired", "trash"),
        (b"tasks/t", "task-expired", "trash"),
    }


def test_a_status_without_a_time_is_not_taken_for_one_of_1970(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("lake")
    key = world.import_status(partition, None)
    world.kv.set(b"catalog", b"instances/x", b"")
    found = watcher.look(99 * DAY)
    assert found[partition, key].verdict == "report"
    assert found[b"catalog", b"instances/x"].verdict == "report"


def test_a_status_that_cannot_be_read_is_left_alone(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("lake")
    world.kv.set(partition, b"imports/x", b"\xff\xff\xff")
    world.kv.set(b"pulls", b"repos/lake-x/a/b", b"\xff\xff\xff")
    world.kv.set(b"multiparts", b"u", b"\xff\xff\xff")
    watcher.look(9 * DAY)
    assert {finding.verdict for finding in watcher.look(9 * DAY).values()} == {"report"}


def test_a_pull_index_waits_for_its_pull_to_be_written(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("lake")
    key = world.pull_index(partition, "a", "b", made=world.now + 2 * DAY)
    assert watcher.verdict_of(b"pulls", key) == ("pull-index-dangling", "wait")
    assert watcher.verdict_of(b"pulls", key, 2 * DAY) == ("pull-index-dangling", "wait")
    assert watcher.verdict_of(b"pulls", key, DAY) == ("pull-index-dangling", "trash")


def test_a_pull_index_with_its_pull_is_live(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("lake")
    key = world.pull_index(partition, "a", "b")
    pull = messages.SecondaryIndex.FromString(world.kv.get(b"pulls", key)).primary_key
    world.kv.set(partition, b"pulls/" + pull, b"")
    watcher.look(9 * DAY)
    assert watcher.look(9 * DAY) == {}


def test_what_belongs_to_a_lost_repository_waits_with_it(world: World, watcher: Watcher) -> None:
    partition, token = world.beginning("pond")
    world.stage(token)
    pull = world.pull_index(partition, "a", "b")
    world.run("pond", world.now)
    world.owner("pond", "main", world.now)
    watcher.look(9 * DAY)
    found = watcher.look(9 * DAY)
    assert {f.verdict for f in found.values()} == {"report", "wait"}
    assert found[b"pulls", pull].verdict == "wait"


def test_action_runs_are_told_apart_by_time_not_by_name(world: World, watcher: Watcher) -> None:
    world.store.now = START
    world.repository("lake")
    before = world.run("lake", START - timedelta(seconds=61))
    margin = world.run("lake", START - timedelta(seconds=59))
    after = world.run("lake", START + timedelta(seconds=5))
    torn = world.run("lake", START + timedelta(seconds=6), with_run=False)
    watcher.look(9 * DAY)
    found = watcher.look(9 * DAY)
    kinds = {(f.key or b"").decode(): f.kind for f in found.values() if f.verdict == "trash"}
    assert len([k for k in kinds if before in k]) == 3
    assert {kinds[k] for k in kinds if before in k} == {"actions-of-previous-instance"}
    assert {kinds[k] for k in kinds if torn in k} == {"actions-of-missing-run"}
    assert not [k for k in kinds if margin in k or after in k]


def test_a_young_action_run_without_its_record_may_be_under_way(world: World, watcher: Watcher) -> None:
    world.repository("lake")
    run = world.run("lake", world.now + 3 * DAY, with_run=False)
    watcher.look()
    found = watcher.look(3 * DAY)
    assert {f.verdict for f in found.values() if run in (f.key or b"").decode()} == {"wait"}


def test_an_ownership_hint_of_a_live_branch_stays(world: World, watcher: Watcher) -> None:
    world.repository("lake")
    world.owner("lake", "main", START - 99 * DAY)
    gone = world.owner("lake", "gone", START)
    assert watcher.verdict_of(b"mc-ownership", gone, DAY - timedelta(seconds=1)) == (
        "branch-owner-stale",
        "wait",
    )
    found = watcher.look(timedelta(days=2))
    assert found.keys() == {(b"mc-ownership", gone)}
    assert found[b"mc-ownership", gone].verdict == "trash"


def test_an_ownership_hint_that_has_not_expired_for_a_day_stays(world: World, watcher: Watcher) -> None:
    key = world.owner("gone", "main", START + 3 * DAY)
    assert watcher.verdict_of(b"mc-ownership", key) == ("branch-owner-stale", "wait")
    assert watcher.verdict_of(b"mc-ownership", key, 3 * DAY) == ("branch-owner-stale", "wait")
    assert watcher.verdict_of(b"mc-ownership", key, DAY) == ("branch-owner-stale", "trash")


def test_an_open_upload_is_never_trash(world: World, watcher: Watcher) -> None:
    upload = messages.UploadData(upload_id="u", creation_date=messages.to_timestamp(world.now))
    world.kv.set(b"multiparts", b"u", messages.encode(upload))
    assert watcher.verdict_of(b"multiparts", b"u", 6 * DAY) == ("multipart", "wait")
    assert watcher.verdict_of(b"multiparts", b"u", 99 * DAY) == ("multipart", "report")


def test_a_dangling_commit_is_reported(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("lake")
    first = world.commit(partition, metarange="")
    tagged = world.commit(partition, parents=[first.id], metarange="cd" * 32)
    merged = world.commit(partition, parents=[first.id, "elsewhere"], metarange="ef" * 32)
    world.tag(
        partition, "v1", world.commit(partition, parents=[tagged.id, merged.id], metarange="01" * 32).id
    )
    lone = world.commit(partition, parents=[first.id], metarange="23" * 32)
    found = watcher.look(9 * DAY)
    assert [(f.key, f.verdict) for f in found.values()] == [(b"commits/" + lone.id.encode(), "report")]


# Fail closed


@pytest.mark.parametrize(
    ("partition", "key", "value"),
    [
        (b"graveler", b"repos/bad", b"\xff\xff"),
        (b"graveler", b"repos/bad", b""),
        (b"LIVE", b"branches/bad", b"\xff\xff"),
        (b"LIVE", b"branches/bad", b""),
        (b"LIVE", b"commits/bad", b"\xff\xff"),
        (b"LIVE", b"tags/bad", b"\xff\xff"),
        (b"ZOMBIE", b"branches/bad", b"\xff\xff"),
        (b"ZOMBIE", b"commits/bad", b""),
    ],
)
def test_a_record_that_cannot_be_read_ends_the_run(
    world: World, partition: bytes, key: bytes, value: bytes
) -> None:
    live, _ = world.repository("lake")
    zombie, _ = world.beginning("zombie")
    world.kv.set({b"LIVE": live, b"ZOMBIE": zombie}.get(partition, partition), key, value)
    with pytest.raises(FormatError):
        read_look(world.store)


def test_an_unknown_repository_state_ends_the_run(world: World) -> None:
    partition, _ = world.repository("lake")
    world.record(partition, state=7)
    with pytest.raises(RefusedError, match="state 7"):
        read_look(world.store)


def test_a_record_under_another_name_ends_the_run(world: World) -> None:
    value = world.record_value("lake", xid.new_xid(world.now))
    world.kv.set(b"graveler", b"repos/pond", value)
    with pytest.raises(FormatError):
        read_look(world.store)


@pytest.mark.parametrize("version", [None, b"3", b"5", b""])
def test_another_schema_version_ends_the_run(world: World, version: bytes | None) -> None:
    world.kv.delete(b"kv-internal-metadata", b"kv/schema/version")
    if version is not None:
        world.kv.set(b"kv-internal-metadata", b"kv/schema/version", version)
    with pytest.raises(RefusedError, match="schema version"):
        read_look(world.store)


def test_without_snapshots_what_comes_into_use_during_the_look_is_not_judged(world: World) -> None:
    """DynamoDB: the token is named after the candidates were read; the later read wins."""
    partition, main = world.repository("lake")
    token = world.stage(world.token("lake", "main"))
    dropped = world.token("lake", "old")
    world.stage(dropped)
    world.branch(partition, "old", "head", dropped)
    zombie, _ = world.beginning("late", uid=xid.new_xid(START - 9 * DAY))
    doomed, _ = world.repository("doomed")

    class Shifting(LiveView):
        """A view in which things happen once the candidates were read."""

        reads = 0

        def scan(self, name: bytes, start: bytes = b"") -> Iterator[Entry]:
            if name == b"graveler":
                self.reads += 1
                if self.reads == 2:  # the references that count
                    world.branch(partition, "main", "head", token.decode(), sealed=[main])
                    world.kv.delete(partition, b"branches/old")
                    world.record(zombie)
                    world.kv.delete(b"graveler", b"repos/doomed")
            return super().scan(name, start)

    look = look_through(Shifting(world.kv, world.store.rows))
    old = Sightings([], None)
    found = {
        f.partition: f.verdict
        for f in classify(
            look, old, START + 99 * DAY, TrashMargins(grace=timedelta(0), unsafe_short_grace=True)
        ).findings
    }
    assert token not in found
    assert zombie not in found
    assert found[dropped.encode()] == "wait"
    assert found[doomed] == "wait"


def test_a_repository_being_created_is_never_trash(world: World, watcher: Watcher) -> None:
    """State 2, the design's step 2: the server marks a create that failed, nobody else."""
    partition, token = world.repository("lake")
    world.record(partition, state=2)
    world.stage(token)
    world.import_status(partition, world.now - 9 * DAY)
    world.pull_index(partition, "a", "b")
    young = watcher.look()
    assert young[b"graveler", b"repos/lake"].verdict == "wait"
    watcher.look(9 * DAY)
    found = watcher.look(9 * DAY)
    assert all(finding.verdict != "trash" for finding in found.values())
    assert found[b"graveler", b"repos/lake"].kind == "repository-initial"
    assert found[b"graveler", b"repos/lake"].verdict == "report"
    assert found[token.encode(), None].verdict == "wait"
