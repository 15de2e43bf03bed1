"""Commits that lakeFS lost with its database: what they are, how they become known again, how they are given up.

known     the last complete mark called them active, and the server does not know them
unnamed   a metarange in the bucket that no known commit names, written since the last complete mark or in the last
          days. Without the key-value store, a commit of a branch that was deleted looks the same.

The record of the last mark has the fields of every commit that a ref led to. From these `createCommitRecord` makes a
record with the same id; its lost ancestors come first, because lakeFS ends its process at a commit without its parent.
Where fields are missing, the content is committed by the id of its metarange, as a new commit on a branch of its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from dredge.errors import ConfigError, ConflictError, FormatError, NotFoundError, RefusedError
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.metadata.history import read_history
from dredge.gc.namespaces import METADATA
from dredge.gc.run import open_state
from dredge.gc.witness.consents import Consent, record_consent
from dredge.gc.witness.known_commits import find_unknown
from dredge.gc.witness.past import FORGET_LOST, RESTORE_LOST, Past
from dredge.gc.witness.people import at_work, demand_owner
from dredge.gc.witness.unnamed import Files, Known, list_tables, sort_out
from dredge.lakefs import Commit, CommitText, LakeFS, Repository
from dredge.lakefs.files.ranges import read_metarange
from dredge.lakefs.writing import LakeFSMaker
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions, open_reader, store_clock

KNOWN, UNNAMED = "known", "unnamed"
RECORD, METARANGE = "record", "metarange"
"""How a lost commit became known again: with its id, or as a new commit of its content."""
BRANCH = "dredge-lost-"


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCommit:
    """A commit that lakeFS does not know.

    Attributes:
        name: id of the commit, or of the metarange where that is all that is known.
        kind: `KNOWN` or `UNNAMED`.
        metarange_id: its content; "" is the content without entries.
        written_at: when the metarange file was written, by the store's clock; None if it is not in the bucket.
        objects: number of entries; None if the file is not in the bucket, or is damaged.
        branches: that had the commit as their head at the last mark.
        commit: its fields; None where they are not known.
    """

    name: str
    kind: str
    metarange_id: str
    written_at: datetime | None
    objects: int | None
    branches: tuple[str, ...] = ()
    commit: Commit | None = None


@dataclass(frozen=True, slots=True)
class Restored:
    """A lost commit that is known again.

    Attributes:
        name: of the lost commit.
        how: `RECORD` or `METARANGE`.
        commit_id: of the commit that has its content.
        branch: whose head that commit is.
    """

    name: str
    how: str
    commit_id: str
    branch: str


@dataclass(slots=True)
class LostCommits:
    """What lakeFS lost, of one repository.

    Attributes:
        repository: as the server returns it.
        found: the lost commits; those with branches first, then the newest.
        past: what earlier marks left.
    """

    repository: Repository
    found: list[LostCommit]
    past: Past = field(repr=False)

    @classmethod
    def find(
        cls,
        client: LakeFS,
        name: str,
        keep_unnamed_days: float,
        access: KVAccess | None = None,
        options: StorageOptions | None = None,
    ) -> LostCommits:
        """Find the commits that lakeFS lost. Changes nothing.

        Args:
            client: the lakeFS server.
            name: of the repository.
            keep_unnamed_days: how long unnamed metaranges count.
            access: to lakeFS's key-value store; None knows only the commits that refs lead to.
            options: how the store is reached; None reads the environment.

        Raises:
            NotFoundError: there is no such repository.
            RefusedError: its history cannot be read.
            FormatError: the record of the last mark is damaged.
        """
        repository = client.repository(name)
        reader, state = open_reader(repository.namespace, options), open_state(repository.namespace, options)
        past, now = Past.read(state, repository.namespace), store_clock(state, "")
        history = read_history(client, name, repository.namespace, now, access)
        shown = {
            commit.id: commit.metarange_id
            for graph in (history.kept, history.unreachable)
            for commit in graph.values()
        }
        files = list_tables(reader)
        unknown = find_unknown(client, name, past, shown)
        since = past.since(now, timedelta(days=keep_unnamed_days))
        known = Known(
            named=set(shown.values()) | history.named,
            earlier=past.metaranges,
            ranges=(),
            kinds=past.kinds,
            forgotten=past.forgotten,
        )
        unnamed = sort_out(reader, state, repository.namespace, files, known, cutoff=now, since=since).lost
        found = [*_known(reader, past, unknown, files), *_unnamed(reader, sorted(unnamed), files)]
        found.sort(key=lambda item: (not item.branches, -_seconds(item.written_at), item.name))
        return cls(repository, found, past)

    def restore(
        self, client: LakeFSMaker, names: Collection[str], options: StorageOptions | None = None
    ) -> Iterator[Restored]:
        """Make lost commits known to lakeFS again, each as the head of a branch of its own.

        Args:
            client: the lakeFS server.
            names: of lost commits.
            options: how the store is reached; None reads the environment.

        Raises:
            ConfigError: a name is none of a lost commit.
            RefusedError: a metarange is not in the bucket, or is damaged.
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
        state = open_state(self.repository.namespace, options)
        for name in dict.fromkeys(names):
            yield self._restore(client, by_name[name], state)

    def _restore(self, client: LakeFSMaker, lost: LostCommit, state: ObjectWriter) -> Restored:
        repository, branch = self.repository.name, f"{BRANCH}{lost.name[:12]}"
        if lost.commit is not None and self._make_records(client, lost.commit):
            _branch_at(client, repository, branch, lost.name)
            return Restored(lost.name, RECORD, lost.name, branch)
        commit_id = _commit_content(client, self.repository, branch, lost)
        if lost.kind == KNOWN:
            why = f"{lost.name} has its content in {commit_id}"
            record_consent(state, RESTORE_LOST, repository, why, {"commits": {lost.name: commit_id}})
        return Restored(lost.name, METARANGE, commit_id, branch)

    def _make_records(self, client: LakeFSMaker, commit: Commit) -> bool:
        """Make the record of a commit and before it those of its lost ancestors; False where one cannot be made."""
        rows = {row["commit_id"]: row for row in self.past.commits.to_pylist()}
        missing: list[Commit] = []
        waiting, seen = [commit], {commit.id}
        while waiting:
            item = waiting.pop()
            if item.text is None:
                return False
            missing.append(item)
            for parent in item.parents:
                if parent in seen or _is_known(client, self.repository.name, parent):
                    continue
                seen.add(parent)
                if parent not in rows or (found := _commit(rows[parent])) is None:
                    return False
                waiting.append(found)
        # A commit has a larger generation than all its parents.
        missing.sort(key=lambda item: item.text.generation if item.text is not None else 0)
        return all(client.create_commit_record(self.repository.name, item) for item in missing)


def forget_lost(
    client: LakeFS,
    name: str,
    why: str,
    keep_unnamed_days: float,
    access: KVAccess | None = None,
    options: StorageOptions | None = None,
) -> tuple[Consent, list[LostCommit]]:
    """Give up the commits that lakeFS lost: their objects become garbage, and later marks do not ask for them.

    Args:
        client: the lakeFS server.
        name: of the repository.
        why: the reason, in the person's words.
        keep_unnamed_days: how long unnamed metaranges count.
        access: to lakeFS's key-value store; None knows only the commits that refs lead to.
        options: how the store is reached; None reads the environment.

    Returns:
        The statement as it was written, and the commits. None of these if the record of the last mark is damaged:
        then the record is given up.

    Raises:
        ConfigError: there is no reason.
        RefusedError: another server owns the namespace.
        LeaseHeldError: a run is at work.
    """
    with at_work(name, why, FORGET_LOST, client, options) as site:
        demand_owner(site)
        found = _find_lost(client, name, keep_unnamed_days, access, options)
        what = {
            "commits": sorted(item.name for item in found if item.kind == KNOWN),
            "metaranges": sorted(item.metarange_id for item in found if item.metarange_id),
        }
        return record_consent(site.state, FORGET_LOST, name, why, what), found


def _find_lost(
    client: LakeFS,
    name: str,
    keep_unnamed_days: float,
    access: KVAccess | None,
    options: StorageOptions | None,
) -> list[LostCommit]:
    namespace = client.repository(name).namespace
    try:
        Past.read(open_state(namespace, options), namespace)
    except FormatError:
        return []
    return LostCommits.find(client, name, keep_unnamed_days, access, options).found


def _known(reader: ObjectReader, past: Past, unknown: Sequence[str], files: Files) -> Iterator[LostCommit]:
    for row in past.rows(unknown):
        metarange_id = row["metarange_id"]
        info = files.get(metarange_id)
        yield LostCommit(
            name=row["commit_id"],
            kind=KNOWN,
            metarange_id=metarange_id,
            written_at=None if info is None else info.last_modified,
            objects=_objects(reader, metarange_id),
            branches=tuple(row["branches"]),
            commit=_commit(row),
        )


def _unnamed(reader: ObjectReader, metaranges: Iterable[str], files: Files) -> Iterator[LostCommit]:
    for name in metaranges:
        yield LostCommit(
            name=name,
            kind=UNNAMED,
            metarange_id=name,
            written_at=files[name].last_modified,
            objects=_objects(reader, name),
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
    """A commit from a row of the record; None if only its metarange is known."""
    if row["parents"] is None or row["created_at"] is None:
        return None
    commit = Commit(
        row["commit_id"], tuple(row["parents"]), row["created_at"], row["metarange_id"], row["version"]
    )
    if row["generation"] is None:
        return commit
    text = CommitText(row["committer"], row["message"], json.loads(row["metadata"]), row["generation"])
    return replace(commit, text=text)


def _is_known(client: LakeFS, repository: str, commit_id: str) -> bool:
    try:
        client.commit(repository, commit_id)
    except NotFoundError:
        return False
    return True


def _branch_at(client: LakeFSMaker, repository: str, branch: str, commit_id: str) -> None:
    """Create a branch at a commit; one that is there already, from an earlier try, must be at it."""
    try:
        head = client.create_branch(repository, branch, commit_id).commit_id
    except ConflictError:
        head = client.branch(repository, branch).commit_id
    if head != commit_id:
        raise ConflictError(
            f"branch {branch} of {repository} is at {head} and not at {commit_id}. Rename or delete the branch, then"
            " give the command again."
        )


def _commit_content(client: LakeFSMaker, repository: Repository, branch: str, lost: LostCommit) -> str:
    """Commit the content of a lost commit on a branch of its own; returns the commit's id."""
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
