"""Only garbage that has waited for another run is a candidate."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.errors import ConflictError, RefusedError
from dredge.icechunk.collection.list_candidates import waiting as waiting_step
from dredge.icechunk.collection.steps import check_limits, collect, list_candidates, mark
from dredge.runs.payload import to_json
from dredge.runs.pending import store
from dredge.runs.pending.store import FORMAT, POINTER
from dredge.runs.tasks import LocalRunner
from tests.support.icechunk import contents, objects
from tests.support.icechunk_past import Past
from tests.support.icechunk_repo import Repo
from tests.support.icechunk_waiting import let_wait, pointer, rows, waiting

HERE = LocalRunner()
WAITS: dict[str, Any] = {"unsafe_grace_seconds": None}
#: Without undo.
GRACE = 72.0


def run(repo: Repo, **changes: Any) -> dict[str, Any]:
    return collect(repo.config(**{**WAITS, **changes}))


def put(repo: Repo, what: str) -> None:
    repo.library.create_branch("back", repo.ids[what])


def test_a_run_deletes_nothing_that_it_found_itself_and_tells_what_waits(repo: Repo) -> None:
    before = objects(repo.folder)
    report = run(repo)
    assert objects(repo.folder) == before
    assert (report["outcome"], report["deleted"]["objects"]) == ("success", 0)
    found = report["pending"]
    assert found["found_now"] == found["waiting"]
    assert (found["waiting"]["objects"], found["confirmed"]["objects"]) == (len(waiting(repo.folder)), 0)
    assert (found["grace_seconds"], found["first_deletion"]) == (GRACE * 3600, found["last_deletion"])
    assert report["counts"]["pending_objects"] == found["waiting"]["objects"] > 0
    by_kind = found["by_kind"]
    assert {kind: of["waiting"]["objects"] for kind, of in by_kind.items()} == Counter(
        key.partition("/")[0] for key in waiting(repo.folder)
    )
    assert sum(of["waiting"]["bytes"] for of in by_kind.values()) == found["waiting"]["bytes"] > 0
    assert {of["first_deletion"] for of in by_kind.values()} == {found["first_deletion"]}


@pytest.mark.parametrize("mode", ["clean", "auto"])
def test_another_run_deletes_what_has_waited_and_not_a_moment_earlier(
    repo: Repo, mode: str, tmp_path: Path
) -> None:
    expected = repo.collected(tmp_path)
    run(repo)
    let_wait(repo.folder, GRACE - 0.1)
    before = objects(repo.folder)
    assert run(repo, mode=mode)["pending"]["confirmed"]["objects"] == 0
    assert objects(repo.folder) == before
    let_wait(repo.folder, 0.2)
    report = run(repo, mode=mode)
    assert report["mode"] == {"auto": "optimized"}.get(mode, mode)
    assert report["pending"]["confirmed"] == report["deleted"]
    assert objects(repo.folder) == expected
    assert contents(repo.library, branch="main")
    assert run(repo, mode=mode)["pending"]["waiting"]["objects"] == 0


def test_a_dry_run_and_a_run_delete_what_both_have_seen(repo: Repo, tmp_path: Path) -> None:
    expected = repo.collected(tmp_path)
    run(repo, dry_run=True)
    let_wait(repo.folder, GRACE)
    orphan = repo.folder / "chunks" / ("0" * 20)
    orphan.write_bytes(b"later")
    run(repo)
    assert orphan.exists()
    orphan.unlink()
    assert objects(repo.folder) == expected


@pytest.mark.parametrize("mode", ["clean", "auto"])
def test_what_was_in_use_between_waits_anew_with_all_that_it_names(v1: Repo, mode: str) -> None:
    run(v1)
    let_wait(v1.folder, GRACE)
    put(v1, "7")
    run(v1, mode=mode, dry_run=True)
    v1.library.delete_branch("back")
    report = run(v1, mode=mode)
    assert report["deleted"]["objects"] > 0
    put(v1, "7")
    assert contents(v1.library, branch="back")
    assert len(list(v1.library.ancestry(branch="back"))) > 1


@pytest.mark.parametrize("mode", ["clean", "auto"])
def test_what_is_in_use_leaves_the_list_whatever_age_a_run_asks_for(v1: Repo, mode: str) -> None:
    orphan = v1.folder / "chunks" / ("0" * 20)
    orphan.write_bytes(b"of a session that never committed")
    run(v1)
    before = objects(v1.folder)
    let_wait(v1.folder, GRACE)
    run(v1, mode=mode, dry_run=True, unsafe_min_age_seconds=1e6, unsafe_grace_seconds=GRACE * 3600)
    assert waiting(v1.folder) == {f"chunks/{orphan.name}"}
    assert run(v1, mode=mode)["deleted"]["objects"] == 1
    assert {**before, "chunks": before["chunks"] - {orphan.name}} == objects(v1.folder)


def test_what_waits_keeps_what_it_names_although_that_has_waited(v1: Repo) -> None:
    run(v1)
    let_wait(v1.folder, GRACE)
    path = v1.folder / "snapshots" / v1.ids["7"]
    os.utime(path, (path.stat().st_mtime - 99, path.stat().st_mtime - 99))
    assert run(v1)["deleted"]["objects"] > 0
    put(v1, "7")
    assert contents(v1.library, branch="back")


def test_a_chunk_that_no_manifest_names_is_confirmed_by_an_optimized_run(v2: Repo) -> None:
    orphan = v2.folder / "chunks" / ("0" * 20)
    orphan.write_bytes(b"of a session that never committed")
    run(v2)
    let_wait(v2.folder, GRACE)
    assert run(v2, mode="auto")["mode"] == "optimized"
    assert not orphan.exists()
    later = run(v2, mode="auto")
    assert (later["mode"], later["candidates"]["objects"]) == ("optimized", 0)
    assert not rows(v2.folder)


def test_chunks_whose_manifests_went_first_go_once_they_have_waited(v2: Repo, tmp_path: Path) -> None:
    expected = v2.collected(tmp_path)
    run(v2)
    let_wait(v2.folder, GRACE)
    run(v2, keep_chunks=True)
    run(v2)
    assert objects(v2.folder)["manifests"] == expected["manifests"]
    assert objects(v2.folder)["chunks"] > expected["chunks"]
    let_wait(v2.folder, GRACE)
    assert run(v2, mode="auto")["mode"] == "optimized"
    assert objects(v2.folder) == expected


def test_spec_1_waits_for_the_minimum_age_at_least(repo: Repo) -> None:
    report = run(repo, unsafe_min_age_seconds=None, min_age_hours=240, dry_run=True)
    assert report["pending"]["grace_seconds"] == (240 if repo.spec == 1 else GRACE) * 3600


def damage_part(folder: Path) -> None:
    part = next(iter(pointer(folder).parts.values()))
    (folder / "_dredge" / part.key).write_bytes(b"torn")


def lose_part(folder: Path) -> None:
    part = next(iter(pointer(folder).parts.values()))
    (folder / "_dredge" / part.key).unlink()


def change(**changes: Any) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        path = folder / "_dredge" / POINTER
        found = pointer(folder)
        values = {name: value(found) if callable(value) else value for name, value in changes.items()}
        path.write_text(json.dumps(to_json(replace(found, **values))))
        os.utime(path, (found.left_at.timestamp(), found.left_at.timestamp()))

    return do


def copy_back(folder: Path) -> None:
    os.utime(folder / "_dredge" / POINTER)


BAD: dict[str, Callable[[Path], None]] = {
    "torn pointer": lambda folder: (folder / "_dredge" / POINTER).write_bytes(b"{"),
    "lost pointer": lambda folder: (folder / "_dredge" / POINTER).unlink(),
    "damaged part": damage_part,
    "lost part": lose_part,
    "other place": change(subject="file:///elsewhere"),
    "copied back": copy_back,
    "older format": change(format=FORMAT - 1),
    "future": change(left_at=lambda found: found.left_at.replace(year=9000)),
}


@pytest.mark.parametrize("bad", BAD)
def test_without_a_list_that_can_be_believed_everything_waits_anew_and_the_run_is_clean(
    v2: Repo, bad: str
) -> None:
    run(v2)
    let_wait(v2.folder, GRACE)
    BAD[bad](v2.folder)
    before = objects(v2.folder)
    report = run(v2, mode="auto")
    assert (report["mode"], report["deleted"]["objects"]) == ("clean", 0)
    assert objects(v2.folder) == before
    assert run(v2, mode="auto")["mode"] == "optimized"


def test_a_list_of_another_life_of_the_repository_is_not_believed(v2: Repo) -> None:
    run(v2)
    let_wait(v2.folder, GRACE)
    change(life="another root")(v2.folder)
    before = objects(v2.folder)
    report = run(v2, mode="auto")
    assert report["deleted"]["objects"] == 0
    assert objects(v2.folder) == before
    assert report["warnings"]
    assert run(v2, mode="auto")["mode"] == "clean", "only that finds all that the list had"


def test_a_list_of_a_newer_version_stops_the_run(v2: Repo) -> None:
    run(v2)
    change(format=FORMAT + 1)(v2.folder)
    with pytest.raises(RefusedError):
        run(v2)
    assert collect_after(v2)["outcome"] == "success", "and the lease was given back"


def collect_after(repo: Repo) -> dict[str, Any]:
    change(format=FORMAT)(repo.folder)
    return run(repo)


def test_expiration_leaves_the_life_of_a_repository_as_it_is(tmp_path: Path) -> None:
    for spec in (1, 2):
        past = Past(tmp_path / f"v{spec}", spec)
        past.commit()
        past.collect(unsafe_grace_seconds=None)
        life = pointer(past.folder).life
        past.commit()
        past.pass_days(40)
        past.library.expire_snapshots(older_than=past.library.lookup_snapshot(past.tip()).written_at)
        past.collect(unsafe_grace_seconds=None)
        assert pointer(past.folder).life == life != ""


class Killed(BaseException):
    """As a process dies."""


@pytest.mark.parametrize("written", [False, True])
def test_a_kill_at_the_pointer_neither_loses_rows_nor_confirms_early(
    v2: Repo, written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(v2)
    let_wait(v2.folder, GRACE)
    orphan = v2.folder / "chunks" / ("0" * 20)
    orphan.write_bytes(b"later")
    before = waiting(v2.folder)
    killed = v2.plan(**WAITS)
    mark(killed, HERE)
    list_candidates(killed, HERE)
    assert waiting(v2.folder) == before
    leave = store.write_list

    def die(*args: Any) -> None:
        if written:
            leave(*args)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_list", die)
        with pytest.raises(Killed):
            check_limits(killed)
    assert waiting(v2.folder) == (before | {f"chunks/{orphan.name}"} if written else before)
    check_limits(killed)
    assert waiting(v2.folder) == before | {f"chunks/{orphan.name}"}
    killed.lease.release(killed.plan.lease)
    assert run(v2)["deleted"]["objects"] == len(before)
    assert orphan.exists()


@pytest.mark.parametrize("goes_on", [True, False], ids=["the same run", "the next run"])
def test_a_kill_between_parts_neither_loses_rows_nor_confirms_early(
    v2: Repo, goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(v2)
    let_wait(v2.folder, GRACE)
    (v2.folder / "chunks" / ("0" * 20)).write_bytes(b"later")
    before, parts = rows(v2.folder), 0
    monkeypatch.setattr(waiting_step, "SHARD_ROWS", 3)
    killed = v2.plan(**WAITS)
    mark(killed, HERE)
    while True:
        with dying_at_part(parts := parts + 1) as written:
            try:
                list_candidates(killed, HERE)
                break
            except Killed:
                assert rows(v2.folder) == before
        if not goes_on:
            killed.lease.release(killed.plan.lease)
            killed = v2.plan(**WAITS)
            mark(killed, HERE)
    assert parts > len(written) > 2
    check_limits(killed)
    after = rows(v2.folder)
    assert {key: after[key]["since"] for key in before} == {key: row["since"] for key, row in before.items()}
    (late,) = after.keys() - before.keys()
    assert after[late]["since"] >= killed.plan.created_at
    killed.lease.release(killed.plan.lease)
    assert run(v2)["deleted"]["objects"] == len(before)


@contextmanager
def dying_at_part(number: int) -> Iterator[list[int]]:
    honest, written = store.write_part, list[int]()

    def write_part(state: Any, label: str, shard: int, table: Any) -> Any:
        if len(written) + 1 == number:
            raise Killed
        written.append(shard)
        return honest(state, label, shard, table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "write_part", write_part)
        yield written


def test_a_run_that_another_one_overtook_leaves_no_list(v2: Repo) -> None:
    run(v2)
    slow = v2.plan(**WAITS)
    mark(slow, HERE)
    list_candidates(slow, HERE)
    found = pointer(v2.folder)
    change(run_id="0" * 20)(v2.folder)
    with pytest.raises(ConflictError):
        check_limits(slow)
    assert pointer(v2.folder).run_id != found.run_id


@pytest.mark.parametrize("mode", ["clean", "auto"])
def test_many_shards_wait_as_one_does(
    v2: Repo, mode: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = v2.collected(tmp_path)
    run(v2)
    found, bits = rows(v2.folder), pointer(v2.folder).bits
    monkeypatch.setattr(waiting_step, "SHARD_ROWS", 3)
    run(v2, mode=mode, dry_run=True)
    assert pointer(v2.folder).bits > bits
    again = rows(v2.folder)
    assert {key: row["since"] for key, row in again.items()} == {
        key: row["since"] for key, row in found.items()
    }
    let_wait(v2.folder, GRACE)
    run(v2, mode=mode)
    assert objects(v2.folder) == expected


def grow_old(folder: Path, hours: float) -> None:
    for path in (path for path in folder.rglob("*") if path.is_file()):
        os.utime(path, (path.stat().st_mtime - hours * 3600,) * 2)


@pytest.mark.parametrize("hours", [24, 48])
def test_a_wait_that_began_while_objects_were_young_by_the_age_of_a_run_begins_anew(
    repo: Repo, hours: int
) -> None:
    grow_old(repo.folder, GRACE + 28)
    run(repo, dry_run=True)
    let_wait(repo.folder, GRACE)
    before = objects(repo.folder)
    settings = {"unsafe_min_age_seconds": None, "min_age_hours": hours, "keep_lost_days": 0}
    report = run(repo, **settings)
    assert bool(report["deleted"]["objects"]) is (hours == 24)
    if hours == 48:
        assert objects(repo.folder) == before
        let_wait(repo.folder, GRACE)
        assert run(repo, **settings)["deleted"]["objects"] > 0


def test_an_optimized_run_knows_no_time_of_chunks_and_goes_by_the_age_that_their_wait_began_with(
    v2: Repo, tmp_path: Path
) -> None:
    expected = v2.collected(tmp_path)
    grow_old(v2.folder, 28)
    run(v2)
    let_wait(v2.folder, GRACE)
    run(v2, mode="auto", unsafe_min_age_seconds=3600, dry_run=True)
    assert run(v2, mode="auto")["deleted"]["objects"] == 0
    let_wait(v2.folder, GRACE)
    assert run(v2, mode="auto")["deleted"]["objects"] > 0
    assert objects(v2.folder) == expected


def test_an_optimized_run_lets_no_wait_begin_of_a_chunk_that_is_young_by_its_age(v2: Repo) -> None:
    orphan = v2.folder / "chunks" / ("0" * 20)
    orphan.write_bytes(b"of a session that never committed")
    run(v2)
    longer = {"mode": "auto", "unsafe_min_age_seconds": 1e6, "unsafe_grace_seconds": GRACE * 3600}
    for _ in range(3):
        let_wait(v2.folder, GRACE)
        run(v2, **longer)
        assert orphan.exists()
    assert run(v2, mode="auto")["deleted"]["objects"] > 0
    assert not orphan.exists()
