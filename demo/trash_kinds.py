"""Every kind of trash, from servers that crash, lose races or delete; and rows that only look like trash.

A server that is killed at an exact point writes most of it. The embedded server has no hooks, pull requests
and heartbeats; their rows are written in the format of a real server.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal

from google.protobuf.message import Message

from demo.trash_database import At, Killed, Observer, dies_at, killed, make_server
from dredge import xid
from dredge.kv.rows import Row, RowReader
from dredge.lakefs.files import messages
from dredge.lakefs.files.messages import to_timestamp
from dredge.storage import open_reader, open_writer
from lakefs_embedded.catalog import Catalog, ImportPath
from lakefs_embedded.errors import NotUniqueError
from lakefs_embedded.kv import Store

Fate = Literal["trash", "wait", "report"]
"""Verdict of the cleaner at its second scan; only `trash` is removed."""

DAYS_AGO = 3.0
"""Age of the trash. Younger than a day, an id may belong to a running operation."""

_DEAD_BEFORE_QUEUE = dies_at(At("set", b"cleanup-tokens"))
_DEAD_BEFORE_DROP = dies_at(At("scan", b"cleanup-tokens"))
_DEAD_BEFORE_UNQUEUE = dies_at(At("delete", b"cleanup-tokens"))


@dataclass(frozen=True, slots=True)
class Planted:
    """A partition or key, and its expected outcome.

    Args:
        partition: name.
        key: None for the whole partition.
        kind: expected kind.
        fate: expected verdict.
        why: origin.
        removed: whether the clean must remove it.
    """

    partition: bytes
    key: bytes | None
    kind: str
    fate: Fate
    why: str
    removed: bool

    def select_rows(self, rows: set[Row]) -> set[Row]:
        """Return its rows."""
        return {
            row
            for row in rows
            if row.partition == self.partition and (self.key is None or row.key == self.key)
        }


@dataclass
class Ground:
    """An installation for trash.

    Args:
        kv: its store.
        rows: the same store, as a whole.
        namespace: returns a storage namespace for a name.
    """

    kv: Store
    rows: RowReader
    namespace: Callable[[str], str]
    planted: list[Planted] = field(default_factory=list)

    def server(self, watch: Observer | None = None, days_ago: float = DAYS_AGO) -> Catalog:
        """Return a server of some days ago."""
        return make_server(self.kv, days_ago, watch)

    def all_rows(self) -> set[Row]:
        """Return every row in a snapshot of the store."""
        with self.rows.view() as view:
            return {
                Row(name, entry.key, entry.value) for name in view.partitions() for entry in view.scan(name)
            }

    def create(self, server: Catalog, name: str, life: str = "") -> bytes:
        """Create a repository; returns its partition."""
        return server.repositories.create_repository(name, self.namespace(name + life)).partition

    def say(
        self,
        partition: bytes,
        key: bytes | None,
        kind: str,
        fate: Fate,
        why: str,
    ) -> None:
        """Record the expected outcome of a partition or key; trash is removed."""
        self.planted.append(Planted(partition, key, kind, fate, why, fate == "trash"))

    def put(self, partition: bytes, key: str, message: Message, kind: str, fate: Fate, why: str) -> None:
        """Write a row in the format of a real server, and record its expected outcome."""
        self.kv.set(partition, key.encode(), messages.encode(message))
        self.say(partition, key.encode(), kind, fate, why)

    @contextlib.contextmanager
    def leaves(self, kind: str, fate: Fate, why: str) -> Iterator[None]:
        """Record the expected outcome of every new partition."""
        before = self._partitions()
        yield
        for partition in sorted(self._partitions() - before):
            self.say(partition, None, kind, fate, why)

    def _partitions(self) -> set[bytes]:
        with self.rows.view() as view:
            return set(view.partitions())


def plant(ground: Ground, name: str, again: str) -> None:
    """Create every kind of trash, and rows that a careless cleaner would remove.

    Commits come first, because a commit drops queued tokens.

    Args:
        ground: installation.
        name: a live repository of `DAYS_AGO`.
        again: a new live repository, with a name of a deleted one.
    """
    failed_creates(ground)
    deleted_repository(ground)
    lost_repository(ground)
    stale_records(ground, name)
    stale_indexes(ground, name)
    hook_results(ground, name, again)
    orphans(ground, name)
    alive(ground, name)
    undecided(ground, name)


def failed_creates(ground: Ground) -> None:
    """A create that was killed, and two of one name at once."""
    with ground.leaves("zombie-create", "trash", "create killed before the record"):
        record = At("set_if", b"graveler", b"repos/half-made")
        killed(lambda: ground.create(ground.server(dies_at(record)), "half-made"))

    def meanwhile(operation: str, partition: bytes, key: bytes) -> None:
        if At("set_if", b"graveler", b"repos/twins").is_it(operation, partition, key):
            winner.append(ground.create(ground.server(), "twins"))

    winner: list[bytes] = []
    lost_race = ground.leaves("zombie-create", "trash", "create that lost a race (409)")
    with lost_race, contextlib.suppress(NotUniqueError):
        ground.create(ground.server(meanwhile), "twins", "-loser")
    ground.planted = [each for each in ground.planted if each.partition not in winner]


def deleted_repository(ground: Ground) -> None:
    """Leftovers of a deleted repository: settings, imports, tasks, pull requests, staged changes."""
    server = ground.server()
    partition = ground.create(server, "bygone")
    server.objects.upload_object("bygone", "main", "a", b"committed")
    server.commits.commit("bygone", "main", committer="demo", message="once")
    for number in range(40):
        server.objects.upload_object("bygone", "main", f"staged/{number:03d}", b"staged")
    server.repositories.set_branch_protection("bygone", ["release/*"])
    server.garbage.prepare_commits_async("bygone")
    pull = _pull(ground, partition, "topic", with_record=True)
    token = server.branches.get_branch("bygone", "main").staging_token.encode()
    server.repositories.delete_repository("bygone")
    ground.say(partition, None, "deleted-repository-leftovers", "trash", "deleted as today's lakeFS does it")
    ground.say(token, None, "staging-orphan", "trash", "staged in a repository that was deleted")
    ground.say(b"pulls", pull, "pull-index-of-missing-repository", "trash", "its repository was deleted")


def orphans(ground: Ground, name: str) -> None:
    """Servers that died between taking a token off a branch and dropping its rows."""
    tokens = {}
    for branch, watch in (
        ("unqueued", _DEAD_BEFORE_UNQUEUE),
        ("undropped", _DEAD_BEFORE_DROP),
        ("committed", _DEAD_BEFORE_QUEUE),
        ("deleted", _DEAD_BEFORE_QUEUE),
    ):
        server = ground.server()
        server.branches.create_branch(name, branch, "main")
        for number in range(25):
            server.objects.upload_object(name, branch, f"{branch}/{number:03d}", branch.encode())
        tokens[branch] = server.branches.get_branch(name, branch).staging_token.encode()
        dying = ground.server(watch)
        if branch == "deleted":
            killed(partial(dying.branches.delete_branch, name, branch))
        else:
            killed(
                partial(dying.commits.commit, name, branch, committer="demo", message=f"commit of {branch}")
            )
    for branch, why in (
        ("committed", "killed after a commit"),
        ("deleted", "killed after a branch deletion"),
    ):
        ground.say(tokens[branch], None, "staging-orphan", "trash", why)
    ground.say(tokens["undropped"], None, "staging-queued", "trash", "killed in the middle of the drop")
    ground.say(b"cleanup-tokens", tokens["undropped"], "marker", "wait", "its partition is removed first")
    ground.say(b"cleanup-tokens", tokens["unqueued"], "marker", "trash", "killed after the drop")


def stale_records(ground: Ground, name: str) -> None:
    """Status records without an update for days, in a live repository; a stopped server."""
    server = ground.server()
    partition = server.repositories.get_repository(name).partition
    source = ground.namespace("source")
    open_writer(source).put("imported", b"lies elsewhere")
    server.branches.create_branch(name, "importing", "v1")
    import_id = server.imports.import_start(
        name, "importing", [ImportPath("common_prefix", source, "")], open_reader, committer="demo"
    )
    why = f"no update for {DAYS_AGO:g} days"
    ground.say(partition, f"imports/{import_id}".encode(), "import-expired", "trash", why)
    task_id = server.garbage.prepare_commits_async(name)
    ground.say(partition, f"tasks/{task_id}".encode(), "task-expired", "trash", why)
    beat = messages.InstanceHeartbeat(updated_at=to_timestamp(_days_ago(DAYS_AGO)))
    key = f"instances/{xid.new_xid(_days_ago(9))}"
    ground.put(b"catalog", key, beat, "heartbeat", "trash", "a server that stopped long ago")


def stale_indexes(ground: Ground, name: str) -> None:
    """Secondary index entries and hints without their object."""
    partition = ground.server().repositories.get_repository(name).partition
    pull = _pull(ground, partition, "closed", with_record=False)
    ground.say(b"pulls", pull, "pull-index-dangling", "trash", "its pull request does not exist")
    _owner(ground, name, "deleted", "branch-owner-stale", "the branch was deleted")


def hook_results(ground: Ground, name: str, again: str) -> None:
    """Results of hooks for names without a repository, of an earlier life, and without their run."""
    for repository, kind, why in (
        ("bygone", "actions-of-missing-repository", "the repository was deleted"),
        (again, "actions-of-previous-instance", "ran in an earlier life of the name"),
        (name, "actions-of-missing-run", "their run does not exist"),
    ):
        began = _days_ago(DAYS_AGO - 1)
        run = countdown_id(began)
        base = f"repos/{repository}"
        index = messages.SecondaryIndex(primary_key=f"{base}/runs/{run}".encode())
        ground.put(b"actions", f"{base}/branches/main/{run}", index, kind, "trash", why)
        task = messages.TaskResultData(run_id=run, hook_id="check", passed=True)
        ground.put(b"actions", f"{base}/tasks/{run}/0000_0000", task, kind, "trash", why)
        if kind != "actions-of-missing-run":
            record = messages.RunResultData(run_id=run, start_time=to_timestamp(began), passed=True)
            ground.put(b"actions", f"{base}/runs/{run}", record, kind, "trash", why)


def lost_repository(ground: Ground) -> None:
    """A slow deletion removed the record of the name's next life: acknowledged data without a record."""
    server = ground.server()
    partition = ground.create(server, "lost")
    server.objects.upload_object("lost", "main", "a", b"acknowledged")
    server.commits.commit("lost", "main", committer="demo", message="acknowledged")
    server.objects.upload_object("lost", "main", "b", b"acknowledged too")
    token = server.branches.get_branch("lost", "main").staging_token.encode()
    ground.kv.delete(b"graveler", b"repos/lost")
    ground.say(partition, None, "lost-repository", "report", "a slow delete removed its record: restore it")
    ground.say(token, None, "staging", "report", "staged in a repository that lost its record")


def alive(ground: Ground, name: str) -> None:
    """Changes still in use by branches, though their writer crashed or lost its answer."""
    server = ground.server()
    for branch in ("sealed", "queued"):
        server.branches.create_branch(name, branch, "main")
        server.objects.upload_object(name, branch, f"{branch}/a", b"acknowledged")
    commits: list[bytes] = []

    def before_the_branch(operation: str, partition: bytes, key: bytes) -> None:
        if operation in ("set", "set_if") and key.startswith(b"commits/"):
            commits.append(key)
        elif commits:
            raise Killed

    partition = server.repositories.get_repository(name).partition
    killed(
        partial(
            ground.server(before_the_branch).commits.commit, name, "sealed", committer="demo", message="dies"
        )
    )
    ground.say(
        partition, commits[0], "commit-dangling", "report", "killed before the branch: retention uses it"
    )
    token = server.branches.get_branch(name, "queued").staging_token.encode()
    ground.kv.set(b"cleanup-tokens", token, b"stub-value")
    ground.say(token, None, "staging-live-but-queued", "report", "in use, and queued: dredge trash unqueue")
    ground.say(b"cleanup-tokens", token, "marker-of-live-token", "report", "in use, and queued")


def undecided(ground: Ground, name: str) -> None:
    """Rows of running operations, rows that only the object store can judge, and rows outside lakeFS."""
    with ground.leaves("zombie-create", "wait", "a create of just now, perhaps under way"):
        record = At("set_if", b"graveler", b"repos/young")
        killed(lambda: ground.create(ground.server(dies_at(record), 0), "young"))
    uploads: tuple[tuple[float, Fate, str], ...] = (
        (0.0, "wait", "an upload begun just now"),
        (9.0, "report", "an upload of nine days: only the store knows"),
    )
    for days_ago, fate, why in uploads:
        server = ground.server(days_ago=days_ago)
        upload_id = server.multiparts.create_multipart(name, "main", "big", content_type="x/y")
        ground.say(b"multiparts", upload_id.encode(), "multipart", fate, why)
    ground.kv.set(b"somebody-elses", b"key", b"value")
    ground.say(b"somebody-elses", None, "unknown", "report", "not a name that lakeFS writes")


def _pull(ground: Ground, partition: bytes, source: str, *, with_record: bool) -> bytes:
    """Write the index of a pull request, and its record; returns the key of the index."""
    pull = countdown_id(_days_ago(DAYS_AGO))
    key = b"repos/" + partition + f"/{source}/main".encode()
    ground.kv.set(b"pulls", key, messages.encode(messages.SecondaryIndex(primary_key=pull.encode())))
    if with_record:
        record = messages.PullRequestData(id=pull, source_branch=source, destination_branch="main")
        ground.kv.set(partition, f"pulls/{pull}".encode(), messages.encode(record))
    return key


def _owner(ground: Ground, name: str, branch: str, kind: str, why: str) -> None:
    key = f"run-refs/approximate-branch-owner/{len(name)}:{name}/{branch}"
    hint = messages.BranchOwnership(owner="a server", expires=to_timestamp(_days_ago(DAYS_AGO)))
    ground.put(b"mc-ownership", key, hint, kind, "trash", why)


def _days_ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def countdown_id(when: datetime) -> str:
    """Return an id of hook runs and pull requests, which counts down."""
    seconds = (32_500_915_200 - int(when.timestamp())) % (1 << 32)
    return xid.new_xid(datetime.fromtimestamp(seconds, UTC))
