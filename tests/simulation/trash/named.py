"""All rows reachable from a live one: read from the records as they are, without the cleaner's code.

A repository's record has the partition of its instance; this partition's branch records have staging tokens, current
and sealed. An instance without a record after normal use (removed by a stalled deletion of an earlier one) still
belongs to the users: a restored record needs all of it.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime

from dredge.kv.rows import Row
from dredge.lakefs.files import messages
from dredge.xid import LENGTH, ascending_time, is_xid
from tests.simulation.kv import WatchedKV

REPOSITORIES, HANDED_OVER, MARKERS = b"graveler", b"graveler_deleted", b"cleanup-tokens"
PULLS, ACTIONS, OWNERS, SERVERS, UPLOADS = b"pulls", b"actions", b"mc-ownership", b"catalog", b"multiparts"
NEVER = frozenset(
    {REPOSITORIES, UPLOADS, b"auth", b"basicAuth", b"usage", b"kv-internal-metadata", b"strange"}
)
"""Partitions never to be touched."""
COUNTDOWN = 32_500_915_200


@dataclass(frozen=True)
class Life:
    name: str
    partition: bytes
    state: int
    created: datetime


@dataclass
class Named:
    lives: dict[bytes, Life] = field(default_factory=dict)  # by partition
    # partitions of staged changes, each with the partitions whose branches name it
    tokens: dict[bytes, set[bytes]] = field(default_factory=dict)

    def by_name(self, name: str) -> Life | None:
        return next((life for life in self.lives.values() if life.name == name), None)


def read_named(store: WatchedKV, lost: Collection[bytes] = ()) -> Named:
    named = Named()
    for entry in store.scan(REPOSITORIES):
        life = life_of(entry.value)
        named.lives[life.partition] = life
    for partition in {*named.lives, *lost}:
        for entry in store.scan(partition, b"branches/"):
            if not entry.key.startswith(b"branches/"):
                break
            for token in tokens_of(entry.value):
                named.tokens.setdefault(token, set()).add(partition)
    return named


def life_of(value: bytes) -> Life:
    record = messages.RepositoryData.FromString(value)
    partition = f"{record.id}-{record.instance_uid}".encode()
    return Life(record.id, partition, record.state, messages.from_timestamp(record.creation_date))


def tokens_of(value: bytes) -> list[bytes]:
    branch = messages.BranchData.FromString(value)
    return [token.encode() for token in (branch.staging_token, *branch.sealed_tokens) if token]


def birth_of(partition: bytes) -> datetime | None:
    """The beginning of an instance, from the name of its partition; None for another form."""
    text = partition.decode("ascii", "replace")
    uid = text[-LENGTH:]
    return ascending_time(uid) if text[-LENGTH - 1 : -LENGTH] == "-" and is_xid(uid) else None


def countdown_of(uid: str) -> float:
    """The creation time of a pull request or a hook run, in Unix seconds, from its id."""
    return (COUNTDOWN - int(ascending_time(uid).timestamp())) % (1 << 32)


def has_substance(store: WatchedKV, partition: bytes) -> bool:
    """Whether an instance has content of its users: more than the traces of a creation, a delete or the first rows of a
    restore of its refs. Those have no head and not the first commit, so lakeFS can show nothing of them.
    """
    commits = [
        messages.CommitData.FromString(row.value)
        for row in store.scan(partition, b"commits/")
        if row.key.startswith(b"commits/")
    ]
    branches = [row for row in store.scan(partition, b"branches/") if row.key.startswith(b"branches/")]
    if any(row.key.startswith(b"tags/") for row in store.scan(partition, b"tags/")):
        return True
    if any(next(iter(store.scan(token)), None) for row in branches for token in tokens_of(row.value)):
        return True
    is_whole = bool(branches) or not all(commit.parents for commit in commits)
    return (len(branches) > 1 and bool(commits)) or (
        is_whole and any(commit.meta_range_id for commit in commits)
    )


type Why = Callable[[Row, Named, datetime], str]
"""Returns the reason to keep a single key; "" without one."""


def keeps_index(store: WatchedKV, row: Row, named: Named, now: datetime) -> str:
    partition = row.key.split(b"/")[1]
    pull = messages.SecondaryIndex.FromString(row.value).primary_key
    if partition in named.lives and any(
        e.key == b"pulls/" + pull for e in store.scan(partition, b"pulls/" + pull)
    ):
        return "its pull request exists"
    young = now.timestamp() - countdown_of(pull.decode()) < 23.8 * 3600
    return "its pull request may be about to be written" if young else ""


def keeps_action(store: WatchedKV, row: Row, named: Named, now: datetime) -> str:
    parts = row.key.decode().split("/")
    run = _run_of(row)
    began = countdown_of(run)
    if now.timestamp() - began < 23.8 * 3600:
        return "its run may be under way"
    life = named.by_name(parts[1])
    if life is None:
        return ""
    if began < life.created.timestamp() - 50:
        return ""
    run_key = f"repos/{parts[1]}/runs/{run}".encode()
    there = any(entry.key == run_key for entry in store.scan(ACTIONS, run_key))
    return "its run belongs to this life of the name" if there else ""


def _run_of(row: Row) -> str:
    parts = row.key.decode().split("/")
    return parts[3] if parts[2] in ("runs", "tasks") else parts[-1]


def may_be_of_either_life(row: Row, named: Named) -> bool:
    """Whether a hook run began about a minute before the repository of its name was created."""
    life = named.by_name(row.key.decode().split("/")[1])
    return life is not None and 50 <= life.created.timestamp() - countdown_of(_run_of(row)) < 62


def keeps_owner(store: WatchedKV, row: Row, named: Named, now: datetime) -> str:
    length, _, rest = row.key.decode().removeprefix("run-refs/approximate-branch-owner/").partition(":")
    name, branch = rest[: int(length)], rest[int(length) + 1 :]
    life = named.by_name(name)
    key = b"branches/" + branch.encode()
    if life is not None and any(entry.key == key for entry in store.scan(life.partition, key)):
        return "its branch exists"
    expires = messages.from_timestamp(messages.BranchOwnership.FromString(row.value).expires)
    return "it has not expired a day ago" if (now - expires).total_seconds() < 23.8 * 3600 else ""


def keeps_status(row: Row, now: datetime) -> str:
    """Reason to keep the status of an import, of a task or of a server."""
    if row.partition == SERVERS:
        updated = messages.InstanceHeartbeat.FromString(row.value).updated_at
    elif row.key.startswith(b"imports/"):
        updated = messages.ImportStatusData.FromString(row.value).updated_at
    else:
        updated = messages.GarbageCollectionPrepareStatus.FromString(row.value).task.updated_at
    if not updated.seconds:
        return "it does not say when it was updated"
    age = (now - messages.from_timestamp(updated)).total_seconds()
    return "it was updated within two days" if age < 47.8 * 3600 else ""
