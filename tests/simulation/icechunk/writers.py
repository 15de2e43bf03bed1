"""Writers of an Icechunk repository, each step of a commit through the store's door.

A session writes its chunks, then manifest, snapshot and transaction log, and the reference last: by a conditional put
of the branch's file (spec 1) or of the repo info, after a copy of the old one (spec 2). After a lost race it builds
again on the new head, or gives up, and leaves its files.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from dredge.errors import ConflictError, NotFoundError
from dredge.icechunk.expiration.plan import Request, spec_v2
from dredge.icechunk.format.metadata import micros, parse_repo_info
from dredge.icechunk.ids import encode_id
from dredge.icechunk.repository import history_of
from dredge.storage import open_writer
from tests.simulation.buckets import Bucket
from tests.simulation.clock import HOUR, instant
from tests.simulation.history import Client, Simulation
from tests.simulation.icechunk.files import (
    Repo,
    Snapshot,
    chunk_manifest,
    repo_file,
    snapshot_file,
    transaction_file,
    virtual_manifest,
)
from tests.simulation.scheduler import Scheduler
from tests.simulation.stores import FAULTS

URI, ROOT = "memory://bucket/ice", "ice/"
BRANCHES, TAGS = ("main", "a", "b"), ("v1", "v2")
TRIES = 3
_YEAR_3000_MILLIS = 32_503_680_000_000

type Draw = Callable[[random.Random], Any]


def _one_of(*values: Any) -> Draw:
    return lambda chance: chance.choice(values)


_BRANCH, _NUMBER = _one_of(*BRANCHES), _one_of(*range(12))
_HOURS = _one_of(0.0, 0.0, 0.1, 2.0, 20.0)
DRAWS: dict[str, tuple[int, tuple[Draw, ...]]] = {
    "commit": (12, (_BRANCH, _one_of(1, 2, 5), _HOURS, _one_of(False, False, True))),
    "amend": (2, (_BRANCH, _one_of(1, 2))),
    "abandon": (3, (_BRANCH, _one_of(1, 3), _HOURS)),
    "create branch": (4, (_one_of("a", "b"), _NUMBER)),
    "delete branch": (4, (_one_of("a", "b"),)),
    "reset": (4, (_BRANCH, _NUMBER)),
    "reset late": (3, (_BRANCH, _NUMBER)),
    "tag": (3, (_one_of(*TAGS), _NUMBER)),
    "untag": (2, (_one_of(*TAGS),)),
    "library expires": (2, (_one_of(0.5, 2.0, 5.0), _one_of(False, True))),
}
"""Every kind of move: its frequency, and the drawing of its arguments."""
VERBS = tuple(DRAWS)


def draw_write(chance: random.Random) -> tuple[str, tuple[Any, ...]]:
    verb = chance.choices(VERBS, [weight for weight, _ in DRAWS.values()])[0]
    return verb, tuple(draw(chance) for draw in DRAWS[verb][1])


@dataclass
class Writers(Client):
    simulation: Simulation  # of the history
    bucket: Bucket  # of the repository
    spec: int  # 1 or 2
    may_use: Callable[[str], bool]  # whether a user may still know a snapshot that no ref reaches (spec 1)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)  # all that were ever written, as they were
    chunks: dict[str, list[str]] = field(default_factory=dict)  # of each manifest
    # chunks of the repository that each manifest names by their location alone
    virtual: dict[str, list[str]] = field(default_factory=dict)
    infos: dict[bytes, Repo] = field(default_factory=dict)  # what each repo info says, by its bytes
    made: int = 0

    @property
    def scheduler(self) -> Scheduler:  # type: ignore[override]
        return self.simulation.scheduler

    def begin(self) -> None:
        root = self._snapshot(None, {})
        if self.spec == 1:
            self._put(self._ref("branch", "main"), _pointer(root.id))
        else:
            repo = Repo({root.id: root}, {"main": root.id}, {}, [(self._micros(), None)])
            self._put("repo", self._info(repo))

    def _commit(self, branch: str, count: int, hours: float, drops: bool) -> None:
        head = self._heads()[branch]
        ids = self._put_chunks(count, hours)
        for _ in range(TRIES):
            # As the library rebases: what the session did not write comes from the head that it commits on.
            manifests = {} if drops else dict(self.snapshots[head].manifests)
            made = self._snapshot(head, manifests | self._manifest([*ids, *self._kept(head)]))
            try:
                self._move(branch, head, made)
                return
            except ConflictError:
                head = self._heads()[branch]
                if head == made.id:
                    return

    def _commit_virtually(self, branch: str, count: int, number: int, hours: float) -> None:
        head = self._heads()[branch]
        known = [
            c for manifest in self.snapshots[self._chosen(number)].manifests for c in self.chunks[manifest]
        ]
        if not known:
            return
        self.simulation.scheduler.pass_time(hours * HOUR)
        manifest = self._id()
        self.chunks[manifest], self.virtual[manifest] = [], known[:count]
        locations = [f"s3://{URI.partition('://')[2]}/chunks/{chunk}" for chunk in known[:count]]
        self._put(f"manifests/{manifest}", virtual_manifest(manifest, locations, self.spec))
        manifests = {**self.snapshots[head].manifests, manifest: len(locations)}
        self._move(branch, head, self._snapshot(head, manifests))
        self.simulation.states["virtual chunks"] += 1

    def _amend(self, branch: str, count: int) -> None:
        head = self._heads()[branch]
        parent = self._parent(head)
        if self.spec == 2 and parent is not None:
            manifests = self._session(head, count, 0.0)
            self._move(branch, head, self._snapshot(parent, manifests))

    def _abandon(self, branch: str, count: int, hours: float) -> None:
        head = self._heads()[branch]
        self._snapshot(head, self._session(head, count, hours))

    def _create_branch(self, branch: str, number: int) -> None:
        self._point("branch", branch, self._chosen(number), None)

    def _delete_branch(self, branch: str) -> None:
        if self.spec == 1:
            self._remove(self._ref("branch", branch))
        else:
            self._change(lambda repo: replace(repo, branches=_without(repo.branches, branch)))

    def _reset(self, branch: str, number: int) -> None:
        self._point("branch", branch, self._chosen(number), self._heads()[branch])

    def _reset_late(self, branch: str, number: int) -> None:
        if self.spec == 1:
            self._point("branch", branch, self._chosen(number, late=True), self._heads()[branch])

    def _tag(self, tag: str, number: int) -> None:
        self._point("tag", tag, self._chosen(number), None)

    def _untag(self, tag: str) -> None:
        if self.spec == 1:
            key = self._ref("tag", tag)
            self._writer.stat(key)
            self._put(f"{key}.deleted", b"")
        else:
            self._change(lambda repo: replace(repo, tags=_without(repo.tags, tag)))

    def _library_expires(self, days: float, refs: bool) -> None:
        if self.spec == 2:
            request = Request(self._micros() - int(days * 86_400_000_000), refs, refs)
            self._change(lambda repo: self._expired(repo, request))

    def _expired(self, repo: Repo, request: Request) -> Repo:
        after = spec_v2(history_of(parse_repo_info(repo_file(repo))), request).after
        kept = {
            name: replace(repo.snapshots[name], parent=after.snapshots[name].parent_id)
            for name in after.snapshots
        }
        return replace(repo, snapshots=kept, branches=dict(after.branches), tags=dict(after.tags))

    def _session(self, head: str, count: int, hours: float) -> dict[str, int]:
        return self._manifest([*self._put_chunks(count, hours), *self._kept(head)])

    def _put_chunks(self, count: int, hours: float) -> list[str]:
        ids = [self._id() for _ in range(count)]
        for number, chunk in enumerate(ids):
            self._put(f"chunks/{chunk}", chunk_bytes(number))
            self.simulation.scheduler.pass_time(hours * HOUR / count)
        return ids

    def _kept(self, head: str) -> list[str]:
        return [c for manifest in self.snapshots[head].manifests for c in self.chunks[manifest]][::2]

    def _manifest(self, chunks: list[str]) -> dict[str, int]:
        manifest = self._id()
        self.chunks[manifest] = chunks
        self._put(f"manifests/{manifest}", chunk_manifest(manifest, chunks))
        return {manifest: len(chunks)}

    def _snapshot(self, parent: str | None, manifests: dict[str, int], spec: int | None = None) -> Snapshot:
        now = self._micros()
        if parent is not None:
            now = max(now, self.snapshots[parent].flushed_at + 1)
        made = Snapshot(self._id(), parent, now, manifests)
        self.snapshots[made.id] = made
        self._put(f"transactions/{made.id}", transaction_file(made, spec or self.spec))
        self._put(f"snapshots/{made.id}", snapshot_file(made, spec or self.spec))
        return made

    def _move(self, branch: str, head: str, made: Snapshot) -> None:
        if self.spec == 1:
            self._point("branch", branch, made.id, head)
            return

        def moved(repo: Repo) -> Repo:
            if repo.branches.get(branch) != head or made.parent not in repo.snapshots:
                raise ConflictError(f"{branch} has moved")
            branches = {**repo.branches, branch: made.id}
            return replace(repo, snapshots={**repo.snapshots, made.id: made}, branches=branches)

        self._change(moved)

    def _point(self, kind: str, name: str, snapshot: str, before: str | None) -> None:
        if self.spec == 2:
            self._change(lambda repo: _pointed(repo, kind, name, snapshot, before))
            return
        key = self._ref(kind, name)
        if before is None:
            self._writer.stat(f"snapshots/{snapshot}")
            self._writer.put_if_absent(key, _pointer(snapshot))
            return
        etag = self._writer.stat(key).etag
        if json.loads(self._writer.get(key))["snapshot"] != before:
            raise ConflictError(f"{name} has moved")
        self._writer.stat(f"snapshots/{snapshot}")
        self._writer.put_if_match(key, _pointer(snapshot), etag or "")

    def _change(self, change: Callable[[Repo], Repo]) -> None:
        for _ in range(TRIES):
            etag = self._writer.stat("repo").etag
            data = self._writer.get("repo")
            repo = self.infos[data]
            changed = change(repo)
            copy = self._copy(data)
            when = max(self._micros(), repo.updates[0][0] + 1)
            changed = replace(changed, updates=[(when, copy), *repo.updates])
            try:
                self._writer.put_if_match("repo", self._info(changed), etag or "")
                return
            except ConflictError:
                continue
        raise ConflictError("the repo info changes all the time")

    def _copy(self, data: bytes) -> str:
        millis = _YEAR_3000_MILLIS - self._micros() // 1000
        copy = f"repo.{millis:014d}.{self._id()}"
        self._put(f"overwritten/{copy}", data)
        return copy

    def _info(self, repo: Repo) -> bytes:
        data = repo_file(repo)
        self.infos[data] = repo
        return data

    def _heads(self) -> dict[str, str]:
        if self.spec == 2:
            return _Found(self.infos[self._writer.get("repo")].branches)
        found = _Found()
        for name in BRANCHES:
            try:
                found[name] = json.loads(self._writer.get(self._ref("branch", name)))["snapshot"]
            except NotFoundError:
                continue
        return found

    def _parent(self, snapshot: str) -> str | None:
        return self.infos[self._writer.get("repo")].snapshots[snapshot].parent if self.spec == 2 else None

    def _chosen(self, number: int, late: bool = False) -> str:
        if self.spec == 2:
            known = sorted(self.infos[self._writer.get("repo")].snapshots)
        else:
            known = [
                name
                for name in sorted(self.snapshots)
                if f"{ROOT}snapshots/{name}" in self.bucket.objects and self.may_use(name) != late
            ]
        if not known:
            raise NotFoundError("there is no such snapshot")
        return known[number % len(known)]

    def _remove(self, key: str) -> None:
        def deed() -> None:
            self.bucket.remove(ROOT + key)

        faults = {name: FAULTS[name] for name in ("store down", "store answer lost")}
        faults |= {
            "some keys fail": FAULTS["store down"],
            "some keys fail after all": FAULTS["store answer lost"],
        }
        self.simulation.doors.call("store", "delete", deed, faults, key)

    def _put(self, key: str, data: bytes) -> None:
        self._writer.put(key, data)

    def _ref(self, kind: str, name: str) -> str:
        return f"refs/{kind}.{name}/ref.json"

    def _id(self) -> str:
        self.made += 1
        return encode_id(self.simulation.chance("id", self.made).randbytes(12))

    def _micros(self) -> int:
        return micros(instant(self.simulation.scheduler.now))

    @property
    def _writer(self) -> Any:
        return open_writer(URI)


class _Found(dict[str, str]):
    def __missing__(self, name: str) -> str:
        raise NotFoundError(f"there is no branch {name}")


def _pointer(snapshot: str) -> bytes:
    return json.dumps({"snapshot": snapshot}).encode()


def chunk_bytes(number: int) -> bytes:
    return (b"%d" % number).ljust(1000)


def _without(refs: Any, name: str) -> dict[str, str]:
    if name not in refs:
        raise NotFoundError(f"there is no {name}")
    return {each: tip for each, tip in refs.items() if each != name}


def _pointed(repo: Repo, kind: str, name: str, snapshot: str, before: str | None) -> Repo:
    refs = dict(repo.branches if kind == "branch" else repo.tags)
    if refs.get(name) != before or snapshot not in repo.snapshots:
        raise ConflictError(f"{name} has moved")
    refs[name] = snapshot
    return replace(repo, branches=refs) if kind == "branch" else replace(repo, tags=refs)
