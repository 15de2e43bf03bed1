"""Statements of people: about the owner and the block (`dredge gc own`, `dredge gc lift-block`), and about commits lost
with lakeFS's database, which are restored or given up.

Each statement holds the lease, so no run works meanwhile, and is kept with name, time and reason.

known     active in the last complete mark, unknown to the server
unnamed   a metarange in the bucket without a known commit, written since the last complete mark or in the last days.
          Without the key-value store, a commit of a deleted branch looks the same.

The record of the last mark has the fields of every commit reachable from a ref. `createCommitRecord` makes a record
with the same id from them, the lost ancestors first: lakeFS ends its process at a commit without its parent. Without
these fields, the content is committed by the id of its metarange, as a new commit on a branch.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, structs

from dredge.errors import ConfigError, ConflictError, FormatError, NotFoundError, RefusedError
from dredge.gc.config import Safety
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.metadata.files import read_history
from dredge.gc.namespaces import METADATA
from dredge.gc.run import make_lease, open_state
from dredge.gc.witness.mark import find_unknown, knows_commit, sort_out
from dredge.gc.witness.owner import (
    ALIAS,
    LIFT_BLOCK,
    OWN,
    WITHOUT_ID,
    Owner,
    Site,
    compare_ids,
    lift,
    read_block,
    read_owner,
    replace_owner,
    write_id,
)
from dredge.gc.witness.record import FORGET_LOST, RESTORE_LOST, Past
from dredge.lakefs import Commit, CommitText, LakeFSClient, Repository
from dredge.lakefs.files.ranges import Files, list_tables, read_metarange
from dredge.lakefs.writing import LakeFSWriter
from dredge.runs.consents import Consent, check_reason, record_consent
from dredge.runs.payload import to_json
from dredge.storage import ObjectReader, ObjectWriter, open_reader, store_clock

type Statement = dict[str, Any]
"""The JSON of a statement: `repository`, `owner`, `before`, `has_id`, `statement`, and `block` if one was lifted."""


def take_over(
    repository: str, why: str, who: str | None = None, client: LakeFSClient | None = None
) -> Statement:
    """Make the server of the lakeFS connection the owner of a repository's namespace."""
    with hold_lease(repository, why, OWN, client) as site:
        environment, before = site.client.environment(), read_owner(site.state)
        what = {"to": to_json(environment), "from": None if before is None else to_json(before.environment)}
        consent = record_consent(site.state, OWN, repository, why, what, who)
        replace_owner(site.state, Owner(environment=environment, since=consent.at))
        # A new id distinguishes it from the owner before.
        return _result(site, consent, before, has_id=write_id(site))


def add_alias(
    repository: str, why: str, who: str | None = None, client: LakeFSClient | None = None
) -> Statement:
    """Record the URL of the lakeFS connection as another URL of the owner. Raises ConfigError: there is no owner yet;
    RefusedError: the server lacks the id of the last mark, or is another installation."""
    with hold_lease(repository, why, ALIAS, client) as site:
        environment, before = site.client.environment(), read_owner(site.state)
        if before is None:
            raise ConfigError(
                f"the namespace of {repository} has no owner yet: its first complete run makes its server the owner."
                " Nothing was changed."
            )
        owner = structs.replace(before, aliases=tuple(sorted({*before.aliases, environment.url})))
        compared = compare_ids(site)
        if (
            not owner.includes(environment)
            or not compared.readable
            or compared.ids.find(compared.value) is None
        ):
            raise RefusedError(
                f"{environment.url} is not known to be the owner's server ({before.environment.url}): its repository"
                f" {repository} does not have the id of the last mark, or it is another installation. Nothing was"
                f" changed. If it takes over: `dredge gc own {repository} --reason …`."
            )
        consent = record_consent(site.state, ALIAS, repository, why, {"url": environment.url}, who)
        replace_owner(site.state, owner)
        return _result(site, consent, before, has_id=True)


def consent_without_id(
    repository: str, why: str, who: str | None = None, client: LakeFSClient | None = None
) -> Statement:
    """Consent to deletions through the owner's server without the id of the last mark."""
    with hold_lease(repository, why, WITHOUT_ID, client) as site:
        before = demand_owner(site)
        what = {"url": site.client.environment().url}
        consent = record_consent(site.state, WITHOUT_ID, repository, why, what, who)
        return _result(site, consent, before, has_id=False)


def lift_block(
    repository: str, why: str, who: str | None = None, client: LakeFSClient | None = None
) -> Statement:
    """Lift the block of a namespace and write a new id to the owner's server. Raises ConfigError: there is no block."""
    with hold_lease(repository, why, LIFT_BLOCK, client) as site:
        before = demand_owner(site)
        if read_block(site.state) is None:
            raise ConfigError(f"the namespace of {repository} is not blocked. Nothing was changed.")
        # The id first: after a kill in between, the block is still in force.
        has_id = write_id(site)
        lifted = lift(site.state, repository, why, who)
        assert lifted is not None
        assert lifted.lifted is not None
        return _result(site, lifted.lifted, before, has_id) | {
            "block": to_json(structs.replace(lifted, lifted=None))
        }


@contextmanager
def hold_lease(repository: str, why: str, what: str, client: LakeFSClient | None) -> Iterator[Site]:
    """Hold the lease of a repository during a person's statement; the holder has the name of the command."""
    check_reason(why)
    server = client or LakeFSClient.from_env()
    state = open_state(server.repository(repository).namespace)
    lease = make_lease(state, Safety().lease_seconds)
    grant = lease.acquire(f"dredge gc {what}")
    with lease.given_back(grant):
        yield Site(state, server, repository, "")


def demand_owner(site: Site) -> Owner | None:
    """Refuse a statement through another server than the owner; return the owner."""
    environment, owner = site.client.environment(), read_owner(site.state)
    if owner is not None and not owner.includes(environment):
        raise RefusedError(
            f"the namespace of {site.repository} is owned by {owner.environment.url}, and this is {environment.url}."
            " Nothing was changed. Use the owner's connection; if this server takes over:"
            f" `dredge gc own {site.repository} --reason …`."
        )
    return owner


def _result(site: Site, consent: Consent, before: Owner | None, has_id: bool) -> Statement:
    owner = read_owner(site.state)
    return {
        "repository": site.repository,
        "owner": None if owner is None else to_json(owner),
        "before": None if before is None else to_json(before),
        "has_id": has_id,
        "statement": to_json(consent),
    }


KNOWN, UNNAMED = "known", "unnamed"
RECORD, METARANGE = "record", "metarange"
"""Ways of a restored commit: with its id, or as a new commit with its content."""
BRANCH = "dredge-lost-"


class LostCommit(Struct, frozen=True, kw_only=True):
    """A commit unknown to lakeFS."""

    name: str  # id of the commit, or of the metarange if the commit is unknown
    kind: str  # `KNOWN` or `UNNAMED`
    metarange_id: str  # "" is empty content
    # write time of the metarange file, by the store's clock; None if it is missing
    written_at: datetime | None
    objects: int | None  # number of entries; None if the file is missing or damaged
    branches: tuple[str, ...] = ()  # with the commit as head at the last mark
    commit: Commit | None = None  # its fields, if known


class Restored(Struct, frozen=True):
    """A restored commit."""

    name: str  # of the lost commit
    how: str  # `RECORD` or `METARANGE`
    commit_id: str  # of the commit with its content
    branch: str  # with that commit as head


@dataclass(slots=True)
class LostCommits:
    """The lost commits of a repository; those with branches first, then the newest."""

    repository: Repository
    found: list[LostCommit]
    past: Past = field(repr=False)

    @classmethod
    def find(
        cls, client: LakeFSClient, name: str, keep_unnamed_days: float, access: KVAccess | None = None
    ) -> LostCommits:
        """Find the lost commits; without the key-value store all but those reachable from refs are unknown."""
        repository = client.repository(name)
        reader, state = open_reader(repository.namespace), open_state(repository.namespace)
        past, now = Past.read(state, repository.namespace), store_clock(state, "")
        history = read_history(client, name, repository.namespace, now, access)
        shown = {
            commit.id: commit.metarange_id
            for graph in (history.kept, history.unreachable)
            for commit in graph.values()
        }
        files = list_tables(reader)
        unknown = find_unknown(client, name, past, shown, files)
        since = past.since(now, timedelta(days=keep_unnamed_days))
        known = past.known({*shown.values(), *history.named})
        unnamed = sort_out(reader, state, repository.namespace, files, known, cutoff=now, since=since).lost
        found = [_lost(reader, files, row["metarange_id"], row) for row in past.rows(unknown)]
        found += [_lost(reader, files, metarange_id) for metarange_id in sorted(unnamed)]
        found.sort(key=lambda item: (not item.branches, -_seconds(item.written_at), item.name))
        return cls(repository, found, past)

    def restore(self, client: LakeFSWriter, names: Collection[str]) -> Iterator[Restored]:
        """Restore lost commits in lakeFS, each as the head of a new branch. Raises ConfigError: a name is not a lost
        commit; RefusedError: a metarange is missing or damaged."""
        by_name = {item.name: item for item in self.found}
        strange = sorted(set(names) - by_name.keys())
        if strange:
            raise ConfigError(
                f"{self.repository.name} lost no commit {strange[0]}. `dredge gc lost {self.repository.name}` lists"
                " them. Nothing was changed."
            )
        absent = [name for name in names if by_name[name].objects is None]
        if absent:
            raise RefusedError(
                f"the metarange {METADATA}{by_name[absent[0]].metarange_id} of {absent[0]} is not in the bucket, or"
                " is damaged: the commit has no content. Restore the file from a backup or an older version. Nothing"
                " was changed."
            )
        state = open_state(self.repository.namespace)
        for name in dict.fromkeys(names):
            yield self._restore(client, by_name[name], state)

    def _restore(self, client: LakeFSWriter, lost: LostCommit, state: ObjectWriter) -> Restored:
        repository, branch = self.repository.name, f"{BRANCH}{lost.name[:12]}"
        if lost.commit is not None and self._make_records(client, lost.commit):
            _branch_at(client, repository, branch, lost.name)
            return Restored(lost.name, RECORD, lost.name, branch)
        commit_id = _commit_content(client, self.repository, branch, lost)
        if lost.kind == KNOWN:
            why = f"{lost.name} has its content in {commit_id}"
            record_consent(state, RESTORE_LOST, repository, why, {"commits": {lost.name: commit_id}})
        return Restored(lost.name, METARANGE, commit_id, branch)

    def _make_records(self, client: LakeFSWriter, commit: Commit) -> bool:
        """Make the records of a commit and its lost ancestors; False if the fields of a record are unknown."""
        rows = {row["commit_id"]: row for row in self.past.commits.to_pylist()}
        missing: list[Commit] = []
        waiting, seen = [commit], {commit.id}
        while waiting:
            item = waiting.pop()
            if item.text is None:
                return False
            missing.append(item)
            for parent in item.parents:
                if parent in seen or knows_commit(client, self.repository.name, parent):
                    continue
                seen.add(parent)
                if parent not in rows or (found := _commit(rows[parent])) is None:
                    return False
                waiting.append(found)
        # A commit has a larger generation than all its parents.
        missing.sort(key=lambda item: item.text.generation if item.text is not None else 0)
        return all(client.create_commit_record(self.repository.name, item) for item in missing)


def forget_lost(
    client: LakeFSClient, name: str, why: str, keep_unnamed_days: float, access: KVAccess | None = None
) -> tuple[Consent, list[LostCommit]]:
    """Give up the lost commits: their objects become garbage, and later marks ignore the commits. Returns the
    statement and the commits; no commits if the record of the last mark is damaged, and given up as well."""
    with hold_lease(name, why, FORGET_LOST, client) as site:
        demand_owner(site)
        found: list[LostCommit] = []
        try:
            Past.read(site.state, client.repository(name).namespace)
        except FormatError:
            pass  # the record of the last mark is given up as well
        else:
            found = LostCommits.find(client, name, keep_unnamed_days, access).found
        what = {
            "commits": sorted(item.name for item in found if item.kind == KNOWN),
            "metaranges": sorted(item.metarange_id for item in found if item.metarange_id),
        }
        return record_consent(site.state, FORGET_LOST, name, why, what), found


def _lost(
    reader: ObjectReader, files: Files, metarange_id: str, row: Mapping[str, Any] | None = None
) -> LostCommit:
    info = files.get(metarange_id)
    return LostCommit(
        name=metarange_id if row is None else row["commit_id"],
        kind=UNNAMED if row is None else KNOWN,
        metarange_id=metarange_id,
        written_at=None if info is None else info.last_modified,
        objects=_objects(reader, metarange_id),
        branches=() if row is None else tuple(row["branches"]),
        commit=None if row is None else _commit(row),
    )


def _objects(reader: ObjectReader, metarange_id: str) -> int | None:
    if not metarange_id:
        return 0
    key = METADATA + metarange_id
    try:
        found = read_metarange(reader.get(key), key, expected_id=metarange_id)
    except (FormatError, NotFoundError):
        return None
    return sum(info.count for info in found)


def _commit(row: Mapping[str, Any]) -> Commit | None:
    if row["parents"] is None or row["created_at"] is None:
        return None
    commit = Commit(
        row["commit_id"], tuple(row["parents"]), row["created_at"], row["metarange_id"], row["version"]
    )
    if row["generation"] is None:
        return commit
    text = CommitText(row["committer"], row["message"], json.loads(row["metadata"]), row["generation"])
    return replace(commit, text=text)


def _branch_at(client: LakeFSWriter, repository: str, branch: str, commit_id: str) -> None:
    """Create a branch at a commit; a branch of an earlier try must be at the same commit."""
    try:
        head = client.create_branch(repository, branch, commit_id).commit_id
    except ConflictError:
        head = client.branch(repository, branch).commit_id
    if head != commit_id:
        raise ConflictError(
            f"branch {branch} of {repository} is at {head} and not at {commit_id}. Rename or delete the branch, then"
            " give the command again."
        )


def _commit_content(client: LakeFSWriter, repository: Repository, branch: str, lost: LostCommit) -> str:
    name = repository.name
    try:
        head = client.create_branch(name, branch, repository.default_branch).commit_id
    except ConflictError:
        head = client.branch(name, branch).commit_id
        if client.commit(name, head).metarange_id == lost.metarange_id:
            return head  # of an earlier try
    message = f"Content of the lost {'commit' if lost.kind == KNOWN else 'metarange'} {lost.name}"
    return client.commit_metarange(name, branch, lost.metarange_id, message)


def _seconds(at: datetime | None) -> float:
    return 0.0 if at is None else at.timestamp()
