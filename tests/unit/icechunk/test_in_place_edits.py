"""One edit of a snapshot, and one ref that goes: each only when the repository is as the plan saw it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError, ConflictError, PartialError, RefusedError
from dredge.icechunk.expiration import apply
from dredge.icechunk.expiration.apply import expire
from dredge.icechunk.expiration.in_place import _drop_ref, apply_edit, expire_in_place
from dredge.icechunk.expiration.plan import Edit
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.history import Ref
from dredge.icechunk.repository import read_history
from dredge.storage import ObjectInfo, ObjectWriter, open_writer
from tests.support.icechunk import Graph, build, local_storage, quiet

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
    [("3", "1", "the plan knew"), ("ZZZZZZZZZZZZZZZZZZZ0", "2", "ZZZZZZZZZZZZZZZZZZZ0 is gone")],
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
    with pytest.raises(ConfigError):
        _drop_ref(line.writer, here, None)
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
