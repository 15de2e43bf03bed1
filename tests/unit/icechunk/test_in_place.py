"""Expiration of spec 1 in place."""

import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.errors import ConfigError, ConflictError, FormatError, PartialError, RefusedError
from dredge.icechunk.expiration import apply
from dredge.icechunk.expiration.apply import _drop_ref, apply_edit
from dredge.icechunk.expiration.plan import Edit, plan_expiration
from dredge.icechunk.format.envelope import HEADER_BYTES
from dredge.icechunk.format.metadata import instant, parse_snapshot
from dredge.icechunk.history import History, Ref
from dredge.icechunk.repository import read_history
from dredge.storage import ObjectInfo, ObjectWriter, open_reader, open_writer
from tests.support.icechunk import (
    ROOT_ID,
    Graph,
    build,
    contents,
    graph_of,
    local_storage,
    names_of,
    quiet,
    s3_storage,
    scenarios,
)
from tests.support.icechunk_expiring import expire, expire_in_place
from tests.support.objectstore import TestBucket, moto_s3

SAMPLE = scenarios()[0]


class Watched:
    def __init__(self, inner: ObjectWriter, hook: Callable[[str, int], None]) -> None:
        self.inner, self.hook, self.writes = inner, hook, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        self.hook(key, self.writes)
        self.writes += 1
        return self.inner.put_if_match(key, data, etag)


class Repo:
    def __init__(self, folder: Path, ids: dict[str, str]) -> None:
        self.folder, self.ids = folder, ids
        self.writer = open_writer(f"file://{folder}")

    @property
    def library(self) -> Any:
        return quiet().Repository.open(local_storage(self.folder))

    def history(self) -> History:
        return read_history(self.writer)

    def ancestries(self) -> dict[str, list[str]]:
        short, history = names_of(self.ids), self.history()
        return {ref.label: [short[node] for node in history.ancestry(ref.tip)] for ref in history.refs}

    def threshold(self, time: float) -> datetime:
        return threshold_of(self.history_of_all(), self.ids, time)

    def history_of_all(self) -> dict[str, int]:
        return {
            path.name: parse_snapshot(path.read_bytes(), path.name).flushed_at
            for path in (self.folder / "snapshots").iterdir()
        }

    def snapshot(self, name: str) -> Path:
        return self.folder / "snapshots" / self.ids[name]


def threshold_of(times: dict[str, int], ids: dict[str, str], time: float) -> datetime:
    known = sorted((float(name), times[snapshot]) for name, snapshot in ids.items() if snapshot in times)
    for at, micros in known:
        if at == time:
            return instant(micros)
    before = [micros for at, micros in known if at < time]
    after = [micros for at, micros in known if at > time]
    if not before:
        return instant(after[0] - 1_000_000)
    return instant((before[-1] + after[0]) // 2) if after else instant(before[-1] + 1_000_000)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("sample") / "repo"
    return folder, build(local_storage(folder), graph_of(SAMPLE), 1)


@pytest.fixture
def sample(made: tuple[Path, dict[str, str]], tmp_path: Path) -> Repo:
    shutil.copytree(made[0], tmp_path / "repo")
    return Repo(tmp_path / "repo", made[1])


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario["id"])
def test_scenarios_end_in_place_as_both_rules_say(scenario: dict[str, Any], tmp_path: Path) -> None:
    ids = build(local_storage(tmp_path / "made"), graph_of(scenario), 1, chunks=False)
    for rule in ("spec_v1", "document"):
        shutil.copytree(tmp_path / "made", tmp_path / rule)
        repo = Repo(tmp_path / rule, ids)
        observed = (
            scenario["observed"]["spec1"]["steps"]
            if rule == "spec_v1"
            else scenario["seed_document_pseudocode"]
        )
        for step, expected in zip(scenario["steps"], observed, strict=True):
            flags = rule == "spec_v1"
            expire(
                repo.writer.uri,
                repo.threshold(step["threshold"]),
                rule=rule,
                delete_expired_branches=flags and step["delete_expired_branches"],
                delete_expired_tags=flags and step["delete_expired_tags"],
            )
            assert repo.ancestries() == expected["ancestry_after"]
        library = repo.library
        for label, path in repo.ancestries().items():
            kind, name = label.split(":")
            assert [info.id for info in library.ancestry(**{kind: name})] == [ids[node] for node in path]


def test_only_parents_change_and_every_ref_reads_back(sample: Repo) -> None:
    before = {path.name: path.read_bytes() for path in (sample.folder / "snapshots").iterdir()}
    read = {name: contents(sample.library, branch=name) for name in SAMPLE["branches"]}
    read |= {name: contents(sample.library, tag=name) for name in SAMPLE["tags"]}
    applied = expire_in_place(sample.writer, sample.threshold(7.5), rule="document")
    assert sorted(names_of(sample.ids)[node] for node in applied.edited) == ["10", "12", "8", "9"]
    for path in (sample.folder / "snapshots").iterdir():
        data = path.read_bytes()
        if path.name not in applied.edited:
            assert data == before[path.name]
            continue
        assert data[:HEADER_BYTES] == before[path.name][:HEADER_BYTES]
        old, new = (parse_snapshot(each, path.name, nodes=True) for each in (before[path.name], data))
        assert new.parent_id == ROOT_ID
        assert (new.flushed_at, new.nodes) == (old.flushed_at, old.nodes)
    library = sample.library
    for name in SAMPLE["branches"]:
        assert contents(library, branch=name) == read[name]
    for name in SAMPLE["tags"]:
        assert contents(library, tag=name) == read[name]


def test_kill_between_any_two_writes_leaves_a_valid_history_and_a_rerun_finishes(
    sample: Repo, tmp_path: Path
) -> None:
    threshold = sample.threshold(7.5)
    plan = plan_expiration(sample.history(), threshold, rule="spec_v1")
    assert len(plan.edits) == 6
    expected = plan.ancestries()
    before = {ref.label: plan.before.ancestry(ref.tip) for ref in plan.before.refs}
    for writes in range(len(plan.edits)):
        copy = tmp_path / f"killed-{writes}"
        shutil.copytree(sample.folder, copy)
        repo = Repo(copy, sample.ids)

        def kill(key: str, done: int, limit: int = writes) -> None:
            if done == limit:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            expire_in_place(Watched(repo.writer, kill), threshold, rule="spec_v1")  # type: ignore[arg-type]
        for ref in plan.before.refs:
            path = [info.id for info in repo.library.ancestry(**{ref.kind: ref.name})]
            assert path in (before[ref.label], expected[ref.label])
        expire_in_place(repo.writer, threshold, rule="spec_v1")
        history = repo.history()
        assert {ref.label: history.ancestry(ref.tip) for ref in history.refs} == expected
        assert not list((copy / "snapshots").glob("*.tmp"))


def test_change_by_somebody_else_is_noticed_and_planned_anew(sample: Repo) -> None:
    threshold = sample.threshold(7.5)

    def meddle(key: str, done: int) -> None:
        if done == 0:  # another expiration, with a later threshold, between our read and our write
            sample.library.expire_snapshots(sample.threshold(9.5))

    applied = expire_in_place(Watched(sample.writer, meddle), threshold, rule="spec_v1")  # type: ignore[arg-type]
    assert applied.attempts == 2
    assert sample.ancestries()["branch:develop"] == ["11", "10", "0"]
    assert sample.ancestries()["branch:test"] == ["9", "0"]


def test_endless_changes_are_refused_with_history_valid(sample: Repo) -> None:
    def touch(key: str, done: int) -> None:
        path = sample.folder / key
        path.write_bytes(path.read_bytes())

    with pytest.raises(RefusedError):
        expire_in_place(Watched(sample.writer, touch), sample.threshold(7.5))  # type: ignore[arg-type]
    assert sample.ancestries()["branch:main"][-1] == "0"


def test_approved_plan_is_applied_and_no_other(sample: Repo) -> None:
    threshold = sample.threshold(7.5)
    plan = plan_expiration(sample.history(), threshold, rule="document")
    sample.library.create_branch("new", sample.ids["14"])
    before = sample.history().digest
    with pytest.raises(RefusedError):
        expire_in_place(sample.writer, threshold, rule="document", approved_digest=plan.digest)
    assert sample.history().digest == before
    again = plan_expiration(sample.history(), threshold, rule="document")
    applied = expire_in_place(sample.writer, threshold, rule="document", approved_digest=again.digest)
    assert len(applied.edited) == 4


def test_branch_that_moved_after_the_plan_is_not_deleted(sample: Repo) -> None:
    # test@9 is expired at 9.5; while the snapshots are edited somebody commits to it.
    def commit(key: str, done: int) -> None:
        if done == 0:
            session = sample.library.writable_session("test")
            session.commit("late", allow_empty=True)

    deleted: list[str] = []
    expire_in_place(
        Watched(sample.writer, commit),  # type: ignore[arg-type]
        sample.threshold(9.5),
        delete_expired_branches=True,
        delete_ref=lambda ref: deleted.append(ref.name),
    )
    assert "test" not in deleted
    assert set(deleted) == {"qa"}


def test_missing_snapshot_of_a_history_stops_everything(sample: Repo) -> None:
    sample.snapshot("4").unlink()
    before = {path.name: path.read_bytes() for path in (sample.folder / "snapshots").iterdir()}
    with pytest.raises(FormatError, match=f"{sample.ids['4']} is missing"):
        expire_in_place(sample.writer, sample.threshold(7.5))
    assert {path.name: path.read_bytes() for path in (sample.folder / "snapshots").iterdir()} == before


def test_damaged_snapshot_matters_only_on_a_path(sample: Repo) -> None:
    stray = sample.folder / "snapshots" / "ZZZZZZZZZZZZZZZZZZZ0"
    stray.write_bytes(b"not a snapshot")
    assert read_history(sample.writer).branches
    sample.snapshot("13").write_bytes(b"not a snapshot")
    with pytest.raises(FormatError):
        read_history(sample.writer)


def test_rules_that_do_not_belong_to_the_spec_are_refused(sample: Repo, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="spec_v2"):
        expire(sample.writer.uri, sample.threshold(7.5), rule="spec_v2")
    build(local_storage(tmp_path / "two"), graph_of(SAMPLE), 2, chunks=False)
    with pytest.raises(ConfigError, match="spec 2"):
        expire(f"file://{tmp_path}/two", sample.threshold(7.5), rule="document")
    with pytest.raises(ConfigError):
        expire_in_place(open_writer(f"file://{tmp_path}/two"), sample.threshold(7.5))


def test_flags_delete_expired_refs_but_not_main_and_burn_tags(sample: Repo) -> None:
    expire(
        sample.writer.uri,
        sample.threshold(99),
        rule="document",
        delete_expired_branches=True,
        delete_expired_tags=True,
    )
    assert set(sample.ancestries()) == {"branch:main"}
    assert sorted(sample.library.list_branches()) == ["main"]


@pytest.fixture(scope="module")
def bucket() -> Iterator[TestBucket]:
    with moto_s3() as found:
        yield found


@pytest.mark.parametrize("rule", ["spec_v1", "document"])
def test_readers_on_s3_see_the_old_or_the_new_history_never_a_broken_one(
    bucket: TestBucket, rule: str
) -> None:
    storage = s3_storage(bucket.options, bucket.bucket, rule)
    ids = build(storage, graph_of(SAMPLE), 1, chunks=False)
    uri = f"{bucket.uri}/{rule}"
    reader = open_reader(uri, bucket.options)
    history = read_history(reader)
    times = {node: entry.flushed_at for node, entry in history.snapshots.items()}
    plan = plan_expiration(history, threshold_of(times, ids, 7.5), rule=rule)
    new = {name: plan.after.ancestry(tip) for name, tip in history.branches.items()}
    links = {
        (entry.id, entry.parent_id)
        for state in (plan.before, plan.after)
        for entry in state.snapshots.values()
    }
    stop, failures, seen = threading.Event(), [], set()

    def read() -> None:
        while not stop.is_set():
            for name, tip in history.branches.items():
                # A fresh handle each time: an open one may keep the parents that it read. A walk is many
                # reads, so its beginning may be old and its end new; each link is one or the other, and it
                # ends at the root.
                library = quiet().Repository.open(s3_storage(bucket.options, bucket.bucket, rule))
                path = [info.id for info in library.ancestry(branch=name)]
                if path == new[name]:
                    seen.add(name)
                if path[0] != tip or not set(zip(path, [*path[1:], None], strict=True)) <= links:
                    failures.append((name, path))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        applied = expire_in_place(open_writer(uri, bucket.options), plan.threshold, rule=rule)
        while seen != new.keys() and thread.is_alive():
            stop.wait(0.05)
    finally:
        stop.set()
        thread.join()
    assert failures == []
    assert seen == new.keys()
    assert len(applied.edited) == len(plan.edits)


def test_concurrent_commits_on_s3_survive_an_expiration_in_place(bucket: TestBucket) -> None:
    storage = s3_storage(bucket.options, bucket.bucket, "busy")
    ids = build(storage, graph_of(SAMPLE), 1, chunks=False)
    uri = f"{bucket.uri}/busy"
    history = read_history(open_reader(uri, bucket.options))
    threshold = threshold_of({n: e.flushed_at for n, e in history.snapshots.items()}, ids, 11.5)
    committed: list[str] = []

    def commit() -> None:
        for number in range(8):
            library = quiet().Repository.open(s3_storage(bucket.options, bucket.bucket, "busy"))
            session = library.writable_session("develop")
            committed.append(session.commit(f"late {number}", allow_empty=True))

    thread = threading.Thread(target=commit)
    thread.start()
    for _ in range(4):
        expire_in_place(open_writer(uri, bucket.options), threshold)
    thread.join()
    after = read_history(open_reader(uri, bucket.options))
    assert after.ancestry(after.branches["develop"])[: len(committed)] == committed[::-1]
    assert after.ancestry(after.branches["main"]) == [ids["14"], ids["13"], ids["12"], ids["0"]]


LINE = Graph(
    (("1", "0", 1.0), ("2", "1", 2.0), ("3", "2", 3.0)), {"main": "3", "old": "1", "side": "2"}, {"t": "1"}
)


class Counted:
    def __init__(self, inner: ObjectWriter) -> None:
        self.inner, self.writes, self.has_tags = inner, 0, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def stat(self, key: str) -> ObjectInfo:
        found = self.inner.stat(key)
        return found if self.has_tags else replace(found, etag=None)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        self.writes += 1
        return self.inner.put_if_match(key, data, etag)


class Line:
    def __init__(self, folder: Path, spec: int = 1) -> None:
        self.folder, self.uri = folder, f"file://{folder}"
        self.ids = build(local_storage(folder), LINE, spec, chunks=False)
        self.writer: Any = Counted(open_writer(self.uri))

    def parents(self) -> dict[str, str | None]:
        names = {node: name for name, node in self.ids.items()}
        found = read_history(self.writer).snapshots.values()
        return {names[entry.id]: names[entry.parent_id] if entry.parent_id else None for entry in found}

    def edit(self, snapshot: str, old: str, new: str) -> Edit:
        return Edit(self.ids.get(snapshot, snapshot), self.ids[old], self.ids[new])

    def refs(self) -> set[str]:
        return {ref.label for ref in read_history(self.writer).refs}

    def between(self, older: str, newer: str) -> datetime:
        entries = read_history(self.writer).snapshots
        times = [entries[self.ids[name]].flushed_at for name in (older, newer)]
        return instant(sum(times) // 2 + 1)


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path)


@pytest.mark.parametrize(
    ("snapshot", "old", "why"),
    [("3", "1", "as in the plan"), ("ZZZZZZZZZZZZZZZZZZZ0", "2", "ZZZZZZZZZZZZZZZZZZZ0 is missing")],
)
def test_a_snapshot_that_is_not_as_planned_is_not_edited(
    line: Line, snapshot: str, old: str, why: str
) -> None:
    with pytest.raises(ConflictError, match=why):
        apply_edit(line.writer, line.edit(snapshot, old, "0"))
    assert line.writer.writes == 0


def test_without_tags_nothing_is_written(line: Line) -> None:
    line.writer.has_tags = False
    with pytest.raises(RefusedError):
        apply_edit(line.writer, line.edit("3", "2", "0"))
    assert line.writer.writes == 0


def test_a_ref_goes_only_while_it_is_where_the_plan_saw_it(line: Line) -> None:
    gone: list[Ref] = []
    here, moved = (Ref("branch", "old", line.ids[name]) for name in "12")
    with pytest.raises(ConflictError, match="branch:old moved"):
        _drop_ref(line.writer, moved, gone.append)
    _drop_ref(line.writer, Ref("branch", "nobody", line.ids["1"]), gone.append)
    assert gone == []
    _drop_ref(line.writer, here, gone.append)
    assert gone == [here]


def test_no_ref_goes_of_a_repository_that_was_upgraded(line: Line) -> None:
    line.writer.put("repo", b"")
    with pytest.raises(RefusedError):
        _drop_ref(line.writer, Ref("branch", "old", line.ids["1"]), lambda _: None)


@pytest.mark.parametrize("moment", ["open_library", "delete_ref"])
def test_a_commit_that_arrives_before_the_look_at_its_branch_keeps_it(
    line: Line, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    real = getattr(apply, moment)
    made: list[str] = []

    def slow(*arguments: Any) -> Any:
        if not made:
            session = quiet().Repository.open(local_storage(line.folder)).writable_session("side")
            made.append(session.commit("late", allow_empty=True))
        return real(*arguments)

    monkeypatch.setattr(apply, moment, slow)
    applied = expire(line.uri, line.between("2", "3"), delete_expired_branches=True)
    assert applied.attempts == 2
    assert line.refs() == {"branch:main", "branch:side", "tag:t"}
    assert read_history(line.writer).branches["side"] == made[0]


def test_a_ref_that_went_is_no_promise_that_nothing_was_touched(line: Line) -> None:
    gone: list[Ref] = []

    def delete(ref: Ref) -> None:
        if gone:
            raise ConfigError("access denied")
        gone.append(ref)

    threshold = line.between("2", "3")
    expire_in_place(line.writer, threshold)
    with pytest.raises(PartialError):
        expire_in_place(line.writer, threshold, delete_expired_branches=True, delete_ref=delete)
    assert len(gone) == 1


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize(
    ("flags", "gone"),
    [
        ({}, set()),
        ({"delete_expired_branches": True}, {"branch:old", "branch:side"}),
        ({"delete_expired_tags": True}, {"tag:t"}),
    ],
)
def test_only_those_refs_go_that_were_asked_for(
    tmp_path: Path, spec: int, flags: dict[str, bool], gone: set[str]
) -> None:
    line = Line(tmp_path, spec)
    refs = line.refs()
    applied = expire(line.uri, line.between("2", "3"), **flags)  # type: ignore[arg-type]
    assert {ref.label for ref in applied.refs_deleted} == gone
    assert line.refs() == refs - gone
