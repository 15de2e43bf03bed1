"""Writers' actions in two parts, hours apart, and people's manual actions on an Icechunk repository.

Sessions with a commit a day after their first chunk, a repo info with a much older copy, snapshots listed again, an
upgrade to spec 2, a snapshot's file restored to its state before an expiration.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from dredge.errors import ConflictError, DredgeError, NotFoundError
from tests.simulation.icechunk.files import Repo, Snapshot, snapshot_file
from tests.simulation.icechunk.oracle import Oracle
from tests.simulation.icechunk.writers import BRANCHES, ROOT, TAGS, Writers, chunk_bytes


@dataclass
class Session:
    branch: str
    chunks: list[str]


@dataclass
class Late:
    writers: Writers  # of the repository
    oracle: Oracle  # called for events later than all margins
    sessions: dict[str, Session] = field(default_factory=dict)  # that have begun, by name
    # of the repo info that were written ahead, by name: what they hold, and their own name
    copies: dict[str, tuple[bytes, str]] = field(default_factory=dict)

    @property
    def verbs(self) -> dict[str, Callable[..., None]]:
        found = {
            "open session": self._open_session,
            "write again": self._write_again,
            "close session": self._close_session,
            "copy ahead": self._copy_ahead,
            "name the copy": self._name_the_copy,
            "list again": self._list_again,
            "upgrade": self._upgrade,
            "put back": self._put_back,
            "foreign file": self._foreign_file,
        }
        return {verb: self._refusing(deed) for verb, deed in found.items()}

    def _refusing(self, deed: Callable[..., None]) -> Callable[..., None]:
        def done(*args: Any) -> None:
            try:
                deed(*args)
            except DredgeError as error:
                self.writers.simulation.scheduler.note(f"{type(error).__name__} {error}"[:200])

        return done

    def _open_session(self, name: str, branch: str, count: int) -> None:
        ids = [self.writers._id() for _ in range(count)]
        self.sessions[name] = Session(branch, ids)
        self._write_again(name)

    def _write_again(self, name: str) -> None:
        for number, chunk in enumerate(self.sessions[name].chunks if name in self.sessions else ()):
            self.writers._put(f"chunks/{chunk}", chunk_bytes(number))

    def _close_session(self, name: str) -> None:
        session = self.sessions.pop(name, None)
        if session is None:
            return
        writers = self.writers
        head = writers._heads()[session.branch]
        made = writers._manifest([*session.chunks, *writers._kept(head)])
        snapshot = writers._snapshot(head, {**writers.snapshots[head].manifests, **made})
        self.oracle.beyond[snapshot.id] = float("inf")
        writers._move(session.branch, head, snapshot)
        self.oracle.named_beyond(snapshot.id)

    def _copy_ahead(self, name: str) -> None:
        if self.writers.spec == 2:
            data = self.writers._writer.get("repo")
            self.copies[name] = data, self.writers._copy(data)

    def _name_the_copy(self, name: str) -> None:
        if name not in self.copies:
            return
        writers, (data, copy) = self.writers, self.copies.pop(name)
        etag, found = writers._writer.stat("repo").etag, writers._writer.get("repo")
        if found != data:
            raise ConflictError("the repo info is another one")
        repo = writers.infos[data]
        when = max(writers._micros(), repo.updates[0][0] + 1)
        info = writers._info(replace(repo, updates=[(when, copy), *repo.updates]))
        self.oracle.copies_named[copy] = float("inf")
        if f"{ROOT}overwritten/{copy}" in self.oracle.bucket.objects:
            writers._writer.put_if_match("repo", info, etag or "")
            self.oracle.copies_named[copy] = writers.simulation.scheduler.now

    def _list_again(self, number: int) -> None:
        if self.writers.spec != 2:
            return

        def listed(repo: Repo) -> Repo:
            known = [
                name
                for name in sorted(self.writers.snapshots)
                if name not in repo.snapshots and f"{ROOT}snapshots/{name}" in self.oracle.bucket.objects
            ]
            if not known:
                raise NotFoundError("every snapshot is listed")
            chosen = self.writers.snapshots[known[number % len(known)]]
            parent = chosen.parent if chosen.parent in repo.snapshots else None
            return replace(repo, snapshots={**repo.snapshots, chosen.id: replace(chosen, parent=parent)})

        self.writers._change(listed)

    def _upgrade(self, removed: int, seconds: float) -> None:
        writers = self.writers
        if writers.spec != 1:
            return
        names = [("branch", name) for name in BRANCHES[1:]] + [("tag", name) for name in TAGS]
        refs = {("branch", name): tip for name, tip in writers._heads().items()}
        for tag in TAGS:
            key = writers._ref("tag", tag)
            if (
                f"{ROOT}{key}" in self.oracle.bucket.objects
                and f"{ROOT}{key}.deleted" not in self.oracle.bucket.objects
            ):
                refs["tag", tag] = json.loads(writers._writer.get(key))["snapshot"]
        repo = self._repo(refs)
        data = writers._info(repo)

        def put() -> None:
            writers.spec = 2
            self.oracle.bucket.write(f"{ROOT}repo", data)

        writers.simulation.doors.call("store", "put_if_absent", put, {}, "repo")
        writers.simulation.states["upgraded"] += 1
        for ref in [*(name for name in names if name in refs), ("branch", "main")][:removed]:
            writers.simulation.scheduler.wait(seconds)
            writers._remove(writers._ref(*ref))

    def _repo(self, refs: dict[tuple[str, str], str]) -> Repo:
        snapshots: dict[str, Snapshot] = {}
        for tip in refs.values():
            node: str | None = tip
            while node is not None and node not in snapshots:
                parent = self.oracle.parents[node]
                snapshots[node] = replace(self.writers.snapshots[node], parent=parent)
                node = parent
        branches = {name: tip for (kind, name), tip in refs.items() if kind == "branch"}
        tags = {name: tip for (kind, name), tip in refs.items() if kind == "tag"}
        now = self.writers._micros()
        return Repo(snapshots, branches, tags, [(now, None)], now)

    def _put_back(self, number: int) -> None:
        if self.writers.spec != 1:
            return

        def deed() -> None:
            edited = [
                name
                for name, parent in sorted(self.oracle.parents.items())
                if parent != self.writers.snapshots[name].parent and name in self.oracle.reached
            ]
            if not edited:
                return
            chosen = self.writers.snapshots[edited[number % len(edited)]]
            node = chosen.parent
            while node is not None:
                if (
                    not self.oracle.may_use(node)
                    or f"{ROOT}snapshots/{node}" not in self.oracle.bucket.objects
                ):
                    return
                node = self.oracle.parents[node]
            self.oracle.bucket.write(f"{ROOT}snapshots/{chosen.id}", snapshot_file(chosen, 1))
            self.writers.simulation.states["put back"] += 1

        self.writers.simulation.doors.call("store", "put", deed, {}, "a snapshot as it was")

    def _foreign_file(self, folder: str) -> None:
        self.writers._put(f"{folder}/read-me.txt", b"not of Icechunk")
