"""The moves of the trash cleaner's world: calls on several repositories at once, on several servers.

Names are chosen to make staged changes of one branch look like those of another: `lake` with branch `a-main` and
`lake-a` with branch `main`. A move's arguments have a meaning in any state; refused calls have no effect.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dredge.lakefs.files import messages
from dredge.lakefs.files.messages import to_timestamp
from dredge.storage import open_reader, open_writer
from dredge.xid import new_xid
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.catalog.imports import ImportPath
from lakefs_embedded.kv import Store
from tests.simulation.history import Client
from tests.simulation.scheduler import Scheduler
from tests.simulation.trash.named import ACTIONS, COUNTDOWN, MARKERS, OWNERS, PULLS, SERVERS
from tests.support.pull_requests import close_pull, open_pull

NAMES = ("lake", "lake-a", "pond")
BRANCHES = ("main", "a-main", "b")
PATHS = ("x/1", "x/2", "y")
IMPORTED = "memory://outside/import"

type Draw = Callable[[random.Random], Any]


def _one_of(*values: Any) -> Draw:
    return lambda chance: chance.choice(values)


_NAME, _BRANCH, _PATH = _one_of(*NAMES), _one_of(*BRANCHES), _one_of(*PATHS)
DRAWS: dict[str, tuple[int, tuple[Draw, ...]]] = {
    "create": (8, (_NAME, _one_of(False, False, False, True))),
    "delete": (6, (_NAME,)),
    "upload": (8, (_NAME, _BRANCH, _PATH)),
    "remove": (2, (_NAME, _BRANCH, _PATH)),
    "commit": (5, (_NAME, _BRANCH)),
    "reset": (3, (_NAME, _BRANCH)),
    "reset prefix": (5, (_NAME, _BRANCH)),
    "reset path": (1, (_NAME, _BRANCH, _PATH)),
    "create branch": (6, (_NAME, _BRANCH, _BRANCH)),
    "delete branch": (5, (_NAME, _BRANCH)),
    "merge": (2, (_NAME, _BRANCH, _BRANCH)),
    "tag": (1, (_NAME, _BRANCH)),
    "settings": (2, (_NAME,)),
    "metadata": (1, (_NAME,)),
    "pull": (3, (_NAME, _BRANCH, _BRANCH)),
    "close pull": (2, (_NAME, _one_of(*range(4)))),
    "import": (1, (_NAME, _BRANCH)),
    "prepare": (1, (_NAME,)),
    "copy refs": (2, (_NAME, _NAME)),
    "multipart": (1, (_NAME, _BRANCH, _PATH)),
    "hook run": (2, (_NAME, _one_of(0.0, 60.0, 3600.0))),
    "begin hook run": (1, (_NAME,)),
    "end hook run": (1, (_NAME,)),
    "skipped run": (1, (_NAME,)),
    "index ahead": (1, (_NAME, _BRANCH, _one_of(0.0), _one_of(30.0))),
    "own branch": (2, (_NAME, _BRANCH)),
    "heartbeat": (1, ()),
    "queue a live token": (1, (_NAME, _BRANCH)),
    "strange row": (1, ()),
}
"""Every kind of move: its frequency, and the drawing of its arguments."""
VERBS = tuple(DRAWS)


def draw_move(chance: random.Random) -> tuple[str, tuple[Any, ...]]:
    verb = chance.choices(VERBS, [weight for weight, _ in DRAWS.values()])[0]
    return verb, tuple(draw(chance) for draw in DRAWS[verb][1])


@dataclass
class Users(Client):
    scheduler: Scheduler  # gives the time
    kv: Store  # the servers' store, behind doors, for what the embedded server does not write itself
    # calls a server's catalog and returns the result
    serve: Callable[[Callable[[Catalog], Any]], Any]
    pulls: list[str] = field(default_factory=list)  # ids of all pull requests so far
    # hook runs that have not ended: their repository, id, and when they began
    hooks: list[tuple[str, str, datetime]] = field(default_factory=list)
    created: int = 0

    def _create(self, name: str, bare: bool) -> None:
        self.created += 1
        space = f"memory://bucket/{name}-{self.created}-{self.scheduler.now:.0f}"
        self.serve(lambda catalog: catalog.repositories.create_repository(name, space, bare=bare))

    def _delete(self, name: str) -> None:
        self.serve(lambda catalog: catalog.repositories.delete_repository(name))

    def _upload(self, name: str, branch: str, path: str) -> None:
        content = f"{self.scheduler.now}".encode()
        self.serve(lambda catalog: catalog.objects.upload_object(name, branch, path, content))

    def _remove(self, name: str, branch: str, path: str) -> None:
        self.serve(lambda catalog: catalog.objects.delete_object(name, branch, path))

    def _commit(self, name: str, branch: str) -> None:
        message = f"at {self.scheduler.now:.0f}"
        self.serve(lambda catalog: catalog.commits.commit(name, branch, committer="user", message=message))

    def _reset(self, name: str, branch: str) -> None:
        self.serve(lambda catalog: catalog.branches.reset_branch(name, branch))

    def _reset_prefix(self, name: str, branch: str) -> None:
        self.serve(
            lambda catalog: catalog.branches.reset_branch(name, branch, kind="common_prefix", path="x/")
        )

    def _reset_path(self, name: str, branch: str, path: str) -> None:
        self.serve(lambda catalog: catalog.branches.reset_branch(name, branch, kind="object", path=path))

    def _create_branch(self, name: str, branch: str, source: str) -> None:
        self.serve(lambda catalog: catalog.branches.create_branch(name, branch, source))

    def _delete_branch(self, name: str, branch: str) -> None:
        self.serve(lambda catalog: catalog.branches.delete_branch(name, branch))

    def _merge(self, name: str, source: str, destination: str) -> None:
        self.serve(lambda catalog: catalog.merges.merge(name, source, destination, committer="user"))

    def _tag(self, name: str, branch: str) -> None:
        tag = f"t{self.scheduler.now:.0f}"
        self.serve(lambda catalog: catalog.tags.create_tag(name, tag, branch))

    def _settings(self, name: str) -> None:
        self.serve(lambda catalog: catalog.repositories.set_branch_protection(name, ["release"]))

    def _metadata(self, name: str) -> None:
        self.serve(lambda catalog: catalog.repositories.update_repository_metadata(name, put={"k": "v"}))

    def _pull(self, name: str, source: str, destination: str) -> None:
        found = self.serve(lambda catalog: catalog.repositories.get_repository(name))
        for branch in (source, destination):
            self.serve(lambda catalog, branch=branch: catalog.branches.get_branch(name, branch))
        self.pulls.append(open_pull(self.kv, found.partition, source, destination, self._now()))

    def _close_pull(self, name: str, number: int) -> None:
        if self.pulls:
            pull = self.pulls[number % len(self.pulls)]
            found = self.serve(lambda catalog: catalog.repositories.get_repository(name))
            close_pull(self.kv, found.partition, pull, self._now())

    def _import(self, name: str, branch: str) -> None:
        open_writer(IMPORTED).put("one", b"1")
        path = ImportPath(f"{IMPORTED}/", "imported/", "common_prefix")
        self.serve(
            lambda catalog: catalog.imports.import_start(name, branch, [path], open_reader, committer="user")
        )

    def _prepare(self, name: str) -> None:
        self.serve(lambda catalog: catalog.garbage.prepare_commits_async(name))

    def _copy_refs(self, name: str, other: str) -> None:
        found = self.serve(lambda catalog: catalog.repositories.get_repository(name))
        branches = self.serve(lambda catalog: list(catalog.refs.branches.scan(found)))
        commits = self.serve(lambda catalog: list(catalog.refs.commits.all(found)))
        self._delete(other)
        self.serve(
            lambda catalog: catalog.repositories.create_repository(other, found.storage_namespace, bare=True)
        )
        for commit in commits:
            self.serve(lambda catalog, made=commit: catalog.commits.create_commit_record(other, made))
        for each in branches:
            self.serve(lambda catalog, to=each: catalog.branches.create_branch(other, to.name, to.commit_id))

    def _multipart(self, name: str, branch: str, path: str) -> None:
        self.serve(
            lambda catalog: catalog.multiparts.create_multipart(name, branch, path, content_type="text/plain")
        )

    def _hook_run(self, name: str, seconds: float) -> None:
        begun = self._begin_hook_run(name)  # others may end it, or begin theirs, while it is noted
        self.scheduler.pass_time(seconds)
        self._end_one(begun)

    def _begin_hook_run(self, name: str) -> tuple[str, str, datetime]:
        began = self._now()
        begun = (name, countdown_id(began), began)
        self.hooks.append(begun)
        self.kv.set(ACTIONS, f"repos/{name}/tasks/{begun[1]}/0000_0000".encode(), b"")
        return begun

    def _end_hook_run(self, name: str) -> None:
        for found in [found for found in self.hooks if found[0] == name]:
            self._end_one(found)

    def _end_one(self, found: tuple[str, str, datetime]) -> None:
        if found not in self.hooks:
            return
        self.hooks.remove(found)
        name, run, began = found
        base = f"repos/{name}"
        index = messages.encode(messages.SecondaryIndex(primary_key=f"{base}/runs/{run}".encode()))
        record = messages.RunResultData(run_id=run, start_time=to_timestamp(began))
        self.kv.set(ACTIONS, f"{base}/runs/{run}".encode(), messages.encode(record))
        self.kv.set(ACTIONS, f"{base}/branches/main/{run}".encode(), index)

    def _skipped_run(self, name: str) -> None:
        run = countdown_id(self._now())
        self.kv.set(
            ACTIONS, f"repos/{name}/runs/{run}".encode(), messages.encode(messages.RunResultData(run_id=run))
        )

    def _index_ahead(self, name: str, branch: str, ahead: float, seconds: float) -> None:
        found = self.serve(lambda catalog: catalog.repositories.get_repository(name))
        when = self._now() + timedelta(seconds=ahead)
        pull = countdown_id(when)
        index = messages.encode(messages.SecondaryIndex(primary_key=pull.encode()))
        self.kv.set(PULLS, b"repos/" + found.partition + f"/{branch}/elsewhere".encode(), index)
        self.scheduler.pass_time(seconds)
        record = messages.PullRequestData(id=pull, source_branch=branch, destination_branch="elsewhere")
        self.kv.set(found.partition, f"pulls/{pull}".encode(), messages.encode(record))

    def _own_branch(self, name: str, branch: str) -> None:
        key = f"run-refs/approximate-branch-owner/{len(name)}:{name}/{branch}".encode()
        expires = to_timestamp(self._now() + timedelta(minutes=5))
        self.kv.set(OWNERS, key, messages.encode(messages.BranchOwnership(owner="s", expires=expires)))

    def _heartbeat(self) -> None:
        beat = messages.InstanceHeartbeat(updated_at=to_timestamp(self._now()))
        key = f"instances/{self.scheduler.now:.0f}".encode()
        self.kv.set(SERVERS, key, messages.encode(beat))

    def _queue_a_live_token(self, name: str, branch: str) -> None:
        token = self.serve(lambda catalog: catalog.branches.get_branch(name, branch)).staging_token
        self.kv.set(MARKERS, token.encode(), b"stub-value")

    def _strange_row(self) -> None:
        self.kv.set(b"strange", b"%d" % int(self.scheduler.now), b"?")

    def _now(self) -> datetime:
        return self.scheduler.process.clock()


def countdown_id(when: datetime) -> str:
    """An id like those of hook runs and pull requests."""
    seconds = (COUNTDOWN - int(when.timestamp())) % (1 << 32)
    return new_xid(datetime.fromtimestamp(seconds, when.tzinfo))
