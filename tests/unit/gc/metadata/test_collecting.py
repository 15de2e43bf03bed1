"""Range and metarange files go only where no commit can come to name them without writing them: whatever a commit does
meanwhile, and whenever, it finds its files."""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import AlarmError, BlockedError, NotFoundError, RefusedError, WitnessError
from dredge.gc.metadata import collecting, deleting
from dredge.gc.metadata.collecting import collect_metadata
from dredge.gc.metadata.config import MetadataConfig
from dredge.gc.metadata.deleting import File, delete_files
from dredge.gc.metadata.files import NamesReader
from dredge.gc.run import METADATA_RUNS, open_state
from dredge.gc.witness.owner import KEY, Site, lift, refuse
from dredge.gc.witness.people import consent_without_id, forget_lost
from dredge.gc.witness.record import POINTER as MARK
from dredge.lakefs.files import messages
from dredge.runs.payload import StepSummary
from dredge.runs.pending.store import FORMAT
from dredge.runs.run import release_lease
from dredge.storage import DeleteOutcome, open_deleter, open_writer
from dredge.storage.model import MaySend, always
from dredge.undo.alarms import SCHEMA, write_alarm
from lakefs_embedded.committed.store import RangeReader
from lakefs_embedded.kv import MemoryKV
from lakefs_embedded.refs.commits import new_commit
from tests.support.gc import World, make_world
from tests.support.kept import keep
from tests.support.killing import before_first_write_of
from tests.support.kv_views import copy_of
from tests.support.lost_database import back_up, restore
from tests.support.memory_versions import OlderVersions
from tests.support.undo import store_of
from tests.support.wrong_runs import say_acknowledged, state_of
from tests.unit.gc.metadata.test_report import Records, is_metarange, left_behind


def versioned() -> World:
    """A lake with a commit and what another one left, two days ago, in a bucket that keeps versions."""
    world = make_world()
    store_of(world).older = OlderVersions()
    world.commit("a", b"1")
    left_behind(world.lake.objects)
    world.age(days=2)
    world.collect(dry_run=True)
    return world


def collect(world: World, kv: Any = None, **settings: Any) -> StepSummary:
    # Nothing that is left behind waits here for a commit that may have been lost.
    asked = {
        "repository": "lake",
        "metadata": "delete",
        "dry_run": False,
        "keep_unnamed_days": 0,
        **settings,
    }
    config = MetadataConfig.from_params(asked)
    access = Records(kv or world.lake.kv)
    return collect_metadata(config, None, world.client, None, world.lake.clock, access)


def noted(world: World | None = None) -> World:
    made = world or versioned()
    collect(made, metadata="report")
    made.age(days=2)
    return made


def there(world: World) -> set[str]:
    return {info.key.removeprefix("_lakefs/") for info in world.lake.objects.list_level("_lakefs/").objects}


def name(world: World, metarange_id: str) -> str:
    refs, now = world.lake.catalog.refs, world.lake.clock()
    repository = refs.repositories.get("lake")
    commit = new_commit(
        committer="c", message="m", creation_date=now, metarange_id=metarange_id, metadata={}, parents=[]
    )
    refs.commits.add(repository, commit)
    return str(commit.id)


def is_readable(world: World, metarange_id: str) -> bool:
    reader = RangeReader(world.lake.objects)
    try:
        return all(
            world.lake.objects.get(f"_lakefs/{info.id}") for info in reader.get_metarange(metarange_id).ranges
        )
    except NotFoundError:
        return False


@functools.cache
def left_metarange() -> str:
    objects = make_world().lake.objects
    return next(found for found in left_behind(objects) if is_metarange(objects, found))


def test_what_has_waited_goes_and_what_commits_name_stays() -> None:
    world = versioned()
    before = there(world)
    first = collect(world)
    assert first.counts["garbage_files"] == 2
    assert there(world) == before, "no run had found it before"
    world.age(days=2)
    second = collect(world)
    assert (second.counts["deleted_files"], second.counts.get("put_back_files", 0)) == (2, 0)
    gone = before - there(world)
    assert len(gone) == 2
    assert left_metarange() in gone
    assert world.lake.read("a") == b"1"
    assert collect(world).counts["garbage_files"] == 0


def test_a_metarange_that_counts_as_a_lost_commit_stays_with_its_ranges_and_so_do_its_objects() -> None:
    world = versioned()
    world.rules(30)
    world.collect()
    noon = back_up(world)
    live = {world.upload(f"n/{number}", b"afternoon %d" % number) for number in range(3)}
    metarange = world.lake.commit("no mark saw it").metarange_id
    restore(world, noon)
    for _ in range(5):
        world.age(days=1)
        collect(world, keep_unnamed_days=30)
        world.collect()
    assert is_readable(world, metarange)
    assert live <= world.data()
    forget_lost(world.client, "lake", "it is not wanted", 30)
    world.age(seconds=1)
    assert collect(world, keep_unnamed_days=30).counts["confirmed_files"] == 0, "everything waits anew"
    world.age(days=1)
    assert collect(world, keep_unnamed_days=30).counts["deleted_files"]
    assert metarange not in there(world)
    world.assert_readable()


def test_files_of_a_commit_that_the_last_mark_called_active_and_the_database_lost_stay_until_it_is_given_up() -> (
    None
):
    """Without the right to set metadata no id tells of the older database."""
    world = versioned()
    world.client.may_update = False
    world.collect(dry_run=True)
    consent_without_id("lake", "no such right", client=world.client)
    noon = back_up(world)
    world.upload("new", b"afternoon")
    metarange = world.lake.commit("the last mark saw it").metarange_id
    world.collect_after(days=2)
    restore(world, noon)
    world.client.may_update = False
    for _ in range(3):
        world.age(days=4)
        summary = collect(world, keep_unnamed_days=30)
    assert any(metarange in text for text in summary.warnings)
    assert is_readable(world, metarange)
    forget_lost(world.client, "lake", "it is not wanted", 30)
    for _ in range(2):
        world.age(days=4)
        collect(world, keep_unnamed_days=30)
    assert metarange not in there(world)
    world.assert_readable()


def test_files_of_a_commit_that_expired_got_a_branch_again_and_was_lost_with_the_database_stay() -> None:
    """Without the right to set metadata no id tells of the older database."""
    world = versioned()
    world.client.may_update = False
    world.rules(1)
    world.collect(dry_run=True)
    consent_without_id("lake", "no such right", client=world.client)
    noon = back_up(world)
    world.lake.catalog.branches.create_branch("lake", "side", "main")
    world.upload("new", b"afternoon", "side")
    commit = world.lake.commit("expires", "side")
    world.age(hours=2)
    world.collect(dry_run=True)
    world.lake.catalog.branches.delete_branch("lake", "side")
    world.age(days=3)
    world.collect(dry_run=True)
    world.lake.catalog.branches.create_branch("lake", "again", commit.id)
    restore(world, noon)
    world.client.may_update = False
    for _ in range(3):
        world.age(days=4)
        summary = collect(world, keep_unnamed_days=30)
    assert summary.counts["confirmed_files"] == 0
    assert is_readable(world, commit.metarange_id)


def test_where_no_mark_would_show_an_older_database_nothing_goes() -> None:
    world = noted()
    state = open_state(world.lake.namespace)
    open_deleter(state.uri).delete([MARK])
    assert collect(world).counts["confirmed_files"] == 0
    assert left_metarange() in there(world)
    world.collect(dry_run=True)
    collect(world)
    world.age(days=1)
    assert collect(world).counts["deleted_files"] == 2


@pytest.mark.parametrize("settings", [{"dry_run": True}, {"metadata": "report"}])
def test_a_dry_run_and_a_report_only_note(settings: dict[str, Any]) -> None:
    world = noted()
    before = there(world)
    summary = collect(world, **settings)
    assert (summary.status, summary.counts["garbage_files"]) == (
        "dry_run" if "dry_run" in settings else "success",
        2,
    )
    assert there(world) == before


def test_in_a_blocked_namespace_no_metadata_goes() -> None:
    world = noted()
    before = there(world)
    run = world.plan(dry_run=True)
    with pytest.raises(WitnessError):
        refuse(Site.of_run(run), "test", "Another past.")
    release_lease(run)
    with pytest.raises(BlockedError):
        collect(world)
    assert collect(world, dry_run=True).counts["confirmed_files"] == 2
    assert there(world) == before
    lift(run.state, "lake", "seen to")
    assert collect(world).counts["deleted_files"] == 2


def test_a_file_goes_once_it_has_waited_for_the_grace_and_not_a_moment_earlier() -> None:
    world = versioned()
    first = collect(world)
    assert [first.counts[name] for name in ("garbage_files", "waiting_files", "confirmed_files")] == [2, 2, 0]
    pending = first.details["pending"]
    assert (pending["found_now"]["objects"], pending["grace_seconds"]) == (2, 20 * 3600)
    world.age(hours=20)
    world.age(microseconds=-1)
    early = collect(world, dry_run=True)
    assert (early.counts["confirmed_files"], early.details["pending"]["found_now"]["objects"]) == (0, 0)
    assert early.details["pending"]["first_deletion"] == pending["first_deletion"]
    world.age(microseconds=1)
    assert collect(world).counts["deleted_files"] == 2


def test_what_was_held_between_two_runs_waits_anew() -> None:
    """An import at work: what it is about to name is unknown, so everything is held."""
    world = noted()
    partition = world.lake.catalog.refs.repositories.get("lake").partition
    world.lake.kv.set(partition, b"imports/i", messages.encode(messages.ImportStatusData(id="i")))
    assert collect(world).details["pending"]["by_status"]["held"]["objects"] == 2
    world.lake.kv.delete(partition, b"imports/i")
    assert collect(world).counts["confirmed_files"] == 0
    world.age(hours=20)
    assert collect(world).counts["confirmed_files"] == 2


def test_a_list_of_another_life_or_a_damaged_one_lets_everything_wait_anew() -> None:
    world = noted()
    place = open_writer(f"{world.lake.namespace}/{METADATA_RUNS}")
    honest = place.get("pending/current.json")
    for wrong in (honest.replace(b'"life": "', b'"life": "9'), b"{"):
        place.put("pending/current.json", wrong)
        summary = collect(world, dry_run=True)
        assert (summary.counts["confirmed_files"], len(summary.warnings)) == (0, 1)
    place.put(
        "pending/current.json",
        honest.replace(f'"format": {FORMAT}'.encode(), f'"format": {FORMAT + 1}'.encode()),
    )
    with pytest.raises(RefusedError):
        collect(world)
    assert left_metarange() in there(world)


def test_the_mark_of_another_server_or_of_an_older_database_leaves_no_list() -> None:
    world = versioned()
    world.collect()
    world.client.set_metadata("lake", {KEY: "of another server"})
    collect(world, metadata="report")
    world.age(days=2)
    assert collect(world, dry_run=True).counts["confirmed_files"] == 0


def test_a_file_that_was_written_again_while_it_waited_stays() -> None:
    world = noted()
    left_behind(world.lake.objects)
    world.age(days=2)
    assert collect(world).counts["confirmed_files"] == 0, "it is another version than the one that waited"
    assert is_readable(world, left_metarange())


def test_without_versions_nothing_goes() -> None:
    world = versioned()
    store_of(world).older = None
    before = there(noted(world))
    summary = collect(world)
    assert there(world) == before
    assert any("versions" in text for text in summary.warnings)


def test_a_version_of_the_time_before_versioning_is_never_deleted() -> None:
    """Where versioning is suspended, what is written takes the place of that one under the same id."""
    world = versioned()
    file = File(left_metarange(), "garbage_metaranges", 1, ("null",))
    with pytest.raises(RefusedError, match=file.name):
        list(delete_files(world.lake.namespace, [file], always))
    assert file.name in there(world)


def test_nothing_but_ranges_and_metaranges_can_be_deleted() -> None:
    world = versioned()
    with pytest.raises(RefusedError, match="data/x"):
        list(delete_files(world.lake.namespace, [File("../data/x", "", 1, ("v1",))], always))


def test_while_an_import_is_at_work_nothing_goes() -> None:
    world = noted()
    before = there(world)
    partition = world.lake.catalog.refs.repositories.get("lake").partition
    world.lake.kv.set(partition, b"imports/i", messages.encode(messages.ImportStatusData(id="i")))
    summary = collect(world)
    assert any("import i" in text for text in summary.warnings)
    assert (summary.counts["garbage_files"], summary.counts["confirmed_files"]) == (2, 0)
    assert there(world) == before


COPIES = "/quarantine/_lakefs/"


@pytest.mark.parametrize("when", ["before", "while files are copied"])
def test_what_another_repository_on_the_namespace_may_name_stays(when: str) -> None:
    """Refs that are restored to a bare repository name metaranges that this one's records do not."""
    world = noted()
    before = there(world)

    def come() -> None:
        world.lake.catalog.repositories.create_repository("restored", world.lake.namespace, bare=True)

    if when == "before":
        come()
    with nullcontext() if when == "before" else before_first_write_of(COPIES, come):
        assert any("restored" in text for text in collect(world).warnings)
    assert there(world) == before


def test_what_a_copy_of_the_store_does_not_know_stays() -> None:
    """A commit made since the copy names what the copy calls garbage. No branch has moved."""
    world = noted()
    world.client.usage()
    copied: MemoryKV = copy_of(world)
    name(world, left_metarange())
    summary = collect(world, kv=copied)
    assert any("copy" in text for text in summary.warnings)
    assert is_readable(world, left_metarange())


def test_a_commit_whose_metarange_is_gone_keeps_everything() -> None:
    world = noted()
    before = there(world)
    name(world, "f" * 64)
    assert any("f" * 64 in text for text in collect(world).warnings)
    assert there(world) == before


def test_ranges_that_a_young_metarange_names_stay() -> None:
    """A commit that is under way has just written it."""
    world = noted()
    metarange = left_metarange()
    world.lake.objects.put(f"_lakefs/{metarange}", world.lake.objects.get(f"_lakefs/{metarange}"))
    assert collect(world).counts["confirmed_files"] == 0
    name(world, metarange)
    assert is_readable(world, metarange)


def test_who_names_a_file_by_its_id_gets_it_back_with_the_next_run() -> None:
    world = noted()
    metarange = left_metarange()
    collect(world)
    name(world, metarange)
    assert not is_readable(world, metarange), "this is the window that the setting tells of"
    world.age(days=30)
    assert collect(world, dry_run=True).counts["would_come_back_files"] == 1
    summary = collect(world, metadata="report")
    assert summary.counts["put_back_files"] == 2
    assert is_readable(world, metarange)
    assert collect(world, metadata="report").counts["garbage_files"] == 0


@contextmanager
def at_each_point(monkeypatch: pytest.MonkeyPatch, do: Callable[[int], None]) -> Iterator[list[int]]:
    """Do something (with the number of the point) before and after everything that a collection does to the store and
    the records; gives all points."""
    points: list[int] = []

    def point() -> None:
        points.append(len(points))
        do(points[-1])

    def around(honest: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **more: Any) -> Any:
            point()
            found = honest(*arguments, **more)
            found = list(found) if isinstance(found, Iterator) else found
            point()
            return found

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(NamesReader, "read", around(NamesReader.read))
        for step in ("read_versions", "copy_aside", "sort_files", "find_copies"):
            module = collecting if step == "sort_files" else deleting
            patch.setattr(module, step, around(getattr(module, step)))
        honest = deleting.open_exact_version_deleter

        class Watched:
            def __init__(self, uri: str, options: Any) -> None:
                self._inner = honest(uri, options)

            def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend) -> list[DeleteOutcome]:
                return list(around(self._inner.delete)(wanted, may_send))

        patch.setattr(deleting, "open_exact_version_deleter", Watched)
        yield points


def committing(
    world: World, monkeypatch: pytest.MonkeyPatch, writes_at: int, names_at: int
) -> tuple[list[int], list[int]]:
    """Collect while a commit writes its files at one point and names them at a later one; gives all points, and those
    from which on the commit is there and its files are not."""
    metarange, lost = left_metarange(), list[int]()

    def commit(point: int) -> None:
        if point == writes_at:
            left_behind(world.lake.objects)
        if point == names_at:
            name(world, metarange)
        if point >= names_at and not is_readable(world, metarange):
            lost.append(point)

    with at_each_point(monkeypatch, commit) as points:
        collect(world)
    if len(points) > names_at and not is_readable(world, metarange):
        lost.append(len(points))
    return points, lost


def test_whenever_a_commit_writes_its_files_and_names_them_they_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every order of its two writes and of everything that a collection does; looked at all the time."""
    as_it_was = keep(noted())
    points, _ = committing(as_it_was(), monkeypatch, -1, 1000)
    assert len(points) >= 12
    for writes_at, names_at in itertools.combinations_with_replacement(points, 2):
        _, lost = committing(as_it_was(), monkeypatch, writes_at, names_at)
        assert not lost, (writes_at, names_at)


def test_no_metadata_is_deleted_while_an_alarm_is_open() -> None:
    world = noted()
    rows = pa.table({name: [1 if name == "hash" else "x"] for name in SCHEMA.names}).cast(SCHEMA)
    write_alarm(state_of(world), "a", "run", world.lake.clock(), rows)
    before = there(world)
    with pytest.raises(AlarmError):
        collect(world)
    assert there(world) == before
    assert collect(world, metadata="report").counts.get("deleted_files", 0) == 0
    say_acknowledged(world)
    world.age(days=2)
    collect(world)
    assert there(world) < before
