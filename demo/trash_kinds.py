"""Trash of every kind, left by servers that die, lose races or delete; and what only looks like trash.

Whatever the embedded server can do is done by one that is killed at an exact point. It has no hooks, pull requests
and heartbeats; their rows are written as a real server writes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal

from google.protobuf.message import Message

from demo.trash_database import At, Killed, Observer, dies_at, killed, server_of
from dredge import xid
from dredge.kv import Store
from dredge.kv.rows import Row, RowReader
from dredge.lakefs.files import messages
from dredge.lakefs.files.messages import to_timestamp
from dredge.storage import open_reader, open_writer
from lakefs_embedded.catalog import Catalog, ImportPath
from lakefs_embedded.errors import NotUniqueError

Fate = Literal["trash", "wait", "report"]
"""What a cleaner has to say at its second look; only `trash` goes."""

DAYS_AGO = 3.0
"""How long ago the trash was left: ids of less than a day may belong to something under way."""

_DEAD_BEFORE_QUEUE = dies_at(At("set", b"cleanup-tokens"))
_DEAD_BEFORE_DROP = dies_at(At("scan", b"cleanup-tokens"))
_DEAD_BEFORE_UNQUEUE = dies_at(At("delete", b"cleanup-tokens"))


@dataclass(frozen=True, slots=True)
class Planted:
    """A partition or key, and the truth about it.

    Args:
        partition: whose.
        key: None: the whole partition.
        kind: what the cleaner has to call it.
        fate: what it has to say of it.
        why: how it came about.
        goes: whether the clean has to remove it.
    """

    partition: bytes
    key: bytes | None
    kind: str
    fate: Fate
    why: str
    goes: bool

    def rows_of(self, rows: set[Row]) -> set[Row]:
        """Those of a store's rows that it is."""
        return {
            row
            for row in rows
            if row.partition == self.partition and (self.key is None or row.key == self.key)
        }


@dataclass
class Ground:
    """An installation on which trash is left.

    Args:
        kv: its store.
        rows: the same store, as a whole.
        namespace: gives a storage namespace for a name.
    """

    kv: Store
    rows: RowReader
    namespace: Callable[[str], str]
    planted: list[Planted] = field(default_factory=list)

    def server(self, watch: Observer | None = None, days_ago: float = DAYS_AGO) -> Catalog:
        """A server of some days ago."""
        return server_of(self.kv, days_ago, watch)

    def all_rows(self) -> set[Row]:
        """Every row of the store as of one moment."""
        with self.rows.view() as view:
            return {
                Row(name, entry.key, entry.value) for name in view.partitions() for entry in view.scan(name)
            }

    def create(self, server: Catalog, name: str, life: str = "") -> bytes:
        """Create a repository; gives its partition."""
        return server.repositories.create_repository(name, self.namespace(name + life)).partition

    def say(
        self,
        partition: bytes,
        key: bytes | None,
        kind: str,
        fate: Fate,
        why: str,
        *,
        goes: bool | None = None,
    ) -> None:
        """Note the truth about a partition or key; trash goes, unless said otherwise."""
        self.planted.append(
            Planted(partition, key, kind, fate, why, fate == "trash" if goes is None else goes)
        )

    def put(self, partition: bytes, key: str, message: Message, kind: str, fate: Fate, why: str) -> None:
        """Write a row as a real server does, and note the truth about it."""
        self.kv.set(partition, key.encode(), messages.encode(message))
        self.say(partition, key.encode(), kind, fate, why)

    @contextlib.contextmanager
    def leaves(self, kind: str, fate: Fate, why: str) -> Iterator[None]:
        """Note the truth about every partition that comes into being."""
        before = self._partitions()
        yield
        for partition in sorted(self._partitions() - before):
            self.say(partition, None, kind, fate, why)

    def _partitions(self) -> set[bytes]:
        with self.rows.view() as view:
            return set(view.partitions())


def plant(ground: Ground, name: str, again: str) -> None:
    """Leave trash of every kind, and what a careless cleaner would take with it.

    Whatever commits comes first: a commit drops what is queued.

    Args:
        ground: where.
        name: a living repository of `DAYS_AGO`.
        again: a living repository that was just created, under a name that had a life before.
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
    """What today's deletion of a repository leaves: settings, imports, tasks, pull requests, staged changes."""
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
    ground.say(b"cleanup-tokens", tokens["undropped"], "marker", "wait", "its partition goes first")
    ground.say(b"cleanup-tokens", tokens["unqueued"], "marker", "trash", "killed after the drop")


def stale_records(ground: Ground, name: str) -> None:
    """Status records that nobody has touched for days, in a living repository; a server that stopped."""
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
    """Secondary index entries and hints whose object is gone."""
    partition = ground.server().repositories.get_repository(name).partition
    pull = _pull(ground, partition, "closed", with_record=False)
    ground.say(b"pulls", pull, "pull-index-dangling", "trash", "its pull request is gone")
    _owner(ground, name, "deleted", "branch-owner-stale", "the branch was deleted")


def hook_results(ground: Ground, name: str, again: str) -> None:
    """Results of hooks under names without a repository, of an earlier life, and without their run."""
    for repository, kind, why in (
        ("bygone", "actions-of-missing-repository", "the repository was deleted"),
        (again, "actions-of-previous-instance", "ran in an earlier life of the name"),
        (name, "actions-of-missing-run", "the run they belong to is gone"),
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
    """A slow deletion has taken the record of the name's next life: acknowledged data without a record."""
    server = ground.server()
    partition = ground.create(server, "lost")
    server.objects.upload_object("lost", "main", "a", b"acknowledged")
    server.commits.commit("lost", "main", committer="demo", message="acknowledged")
    server.objects.upload_object("lost", "main", "b", b"acknowledged too")
    token = server.branches.get_branch("lost", "main").staging_token.encode()
    ground.kv.delete(b"graveler", b"repos/lost")
    ground.say(partition, None, "lost-repository", "report", "a slow delete took its record: put it back")
    ground.say(token, None, "staging", "report", "staged in a repository that lost its record")


def alive(ground: Ground, name: str) -> None:
    """Changes that branches still name, though what wrote them died or lost its answer."""
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
    """What may be under way, what only the object store knows, and what is not lakeFS's."""
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
    """Write the index of a pull request, and its record; gives the key of the index."""
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
    """Make an id as hook runs and pull requests have it: it counts down."""
    seconds = (32_500_915_200 - int(when.timestamp())) % (1 << 32)
    return xid.new_xid(datetime.fromtimestamp(seconds, UTC))
