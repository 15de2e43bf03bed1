"""Commits lost with lakeFS's database: found, restored, or given up.

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
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from dredge.errors import ConfigError, ConflictError, FormatError, NotFoundError, RefusedError
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.metadata.named import read_history
from dredge.gc.namespaces import METADATA
from dredge.gc.run import open_state
from dredge.gc.witness.mark import find_unknown, knows_commit
from dredge.gc.witness.people import demand_owner, hold_lease
from dredge.gc.witness.record import FORGET_LOST, RESTORE_LOST, Past
from dredge.gc.witness.unnamed import Files, list_tables, sort_out
from dredge.lakefs import Commit, CommitText, LakeFSClient, Repository
from dredge.lakefs.files.ranges import read_metarange
from dredge.lakefs.writing import LakeFSWriter
from dredge.runs.consents import Consent, record_consent
from dredge.storage import ObjectReader, ObjectWriter, open_reader, store_clock

KNOWN, UNNAMED = "known", "unnamed"
RECORD, METARANGE = "record", "metarange"
"""Ways of a restored commit: with its id, or as a new commit with its content."""
BRANCH = "dredge-lost-"


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCommit:
    """A commit unknown to lakeFS."""

    name: str  # id of the commit, or of the metarange if the commit is unknown
    kind: str  # `KNOWN` or `UNNAMED`
    metarange_id: str  # "" is empty content
    # write time of the metarange file, by the store's clock; None if it is missing
    written_at: datetime | None
    objects: int | None  # number of entries; None if the file is missing or damaged
    branches: tuple[str, ...] = ()  # with the commit as head at the last mark
    commit: Commit | None = None  # its fields, if known


@dataclass(frozen=True, slots=True)
class Restored:
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
        """Restore lost commits in lakeFS, each as the head of a new branch.

        Raises:
            ConfigError: a name is not a lost commit.
            RefusedError: a metarange is missing or damaged.
        """
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
        if _is_readable(site.state, client.repository(name).namespace):
            found = LostCommits.find(client, name, keep_unnamed_days, access).found
        what = {
            "commits": sorted(item.name for item in found if item.kind == KNOWN),
            "metaranges": sorted(item.metarange_id for item in found if item.metarange_id),
        }
        return record_consent(site.state, FORGET_LOST, name, why, what), found


def _is_readable(state: ObjectReader, namespace: str) -> bool:
    try:
        Past.read(state, namespace)
    except FormatError:
        return False
    return True


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
    return sum(info.count for info in found.ranges)


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
