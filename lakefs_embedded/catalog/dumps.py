"""API calls to dump refs to the storage namespace, and to restore them into a bare repository.

A dump reads branches and tags before commits. Commits are only ever added, so it contains every head. A restore
checks the whole dump first, then writes commits, tags and branches, in this order; it may be repeated.

Source: lakeFS pkg/api/controller.go (DumpRefs, RestoreRefs, DumpSubmit, RestoreSubmit; behaviour only).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from dredge.errors import FormatError, NotFoundError
from dredge.lakefs.files import messages
from dredge.lakefs.files.ranges import Value
from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.catalog.dump_files import DumpFiles, RefsDump, branch_record, commit_record, tag_record
from lakefs_embedded.catalog.model import Namespaces, Refs
from lakefs_embedded.catalog.tasks import Status, Tasks
from lakefs_embedded.committed.writing import SplitRule
from lakefs_embedded.errors import BadRequestError, BranchExistsError, MissingError, TagExistsError
from lakefs_embedded.kv import PredicateFailedError, Store
from lakefs_embedded.refs.commits import expected_id
from lakefs_embedded.refs.records import Commit, Tag, commit_key, new_staging_token

DUMP_PREFIX, RESTORE_PREFIX = "DR", "RR"


class NotBareError(BadRequestError):
    """Refs cannot be restored into a repository with refs."""

    default = "refs can only be restored into a bare repository: invalid value"


class InvalidDumpError(BadRequestError):
    """The dump cannot be restored."""

    default = "invalid refs dump"


@dataclass(frozen=True, slots=True)
class RefsTask:
    """The progress of an asynchronous dump or restore: `done` also after an error; `updated` is aware UTC."""

    id: str
    done: bool
    updated: datetime
    refs: RefsDump | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class _Refs:
    """The content of a dump; commit records by commit id."""

    commits: dict[str, bytes]
    tags: list[Tag]
    branches: list[Branch]


class DumpService:
    """Dumps and restores refs, at once or as tasks."""

    def __init__(self, kv: Store, refs: Refs, namespaces: Namespaces, tasks: Tasks, rule: SplitRule) -> None:
        self._kv = kv
        self._refs = refs
        self._namespaces = namespaces
        self._tasks = tasks
        self._rule = rule

    def dump_refs(self, repository: str) -> RefsDump:
        """Write all commits, branches and tags to the namespace, then a manifest."""
        return self._dump(self._refs.repositories.get(repository))

    def restore_refs(self, repository: str, dump: RefsDump, *, force: bool = False) -> None:
        """Restore the commits, branches and tags of a dump into a bare repository.

        Raises InvalidDumpError when it is damaged or a ref has no commit, MissingError when a file is missing.
        """
        self._restore(self._refs.repositories.writable(repository, force), dump)

    def dump_submit(self, repository: str) -> str:
        """Begin a dump; returns the task's id."""
        found = self._refs.repositories.get(repository)
        status = messages.RepositoryDumpStatus()

        def work() -> None:
            made = self._dump(found)
            status.info.commits_meta_range_id = made.commits
            status.info.tags_meta_range_id = made.tags
            status.info.branches_meta_range_id = made.branches

        return self._tasks.submit(found, status, DUMP_PREFIX, "dump_refs", work)

    def dump_status(self, repository: str, task_id: str) -> RefsTask:
        """The progress of a dump."""
        found = self._refs.repositories.get(repository)
        status = self._tasks.get(found, task_id, DUMP_PREFIX, messages.RepositoryDumpStatus)
        answer = _refs_task(status)
        if not answer.done or answer.error is not None:
            return answer
        info = status.info
        refs = RefsDump(info.commits_meta_range_id, info.tags_meta_range_id, info.branches_meta_range_id)
        return replace(answer, refs=refs)

    def restore_submit(self, repository: str, dump: RefsDump, *, force: bool = False) -> str:
        """Begin a restore; returns the task's id."""
        found = self._refs.repositories.writable(repository, force)
        status = messages.RepositoryRestoreStatus()
        return self._tasks.submit(
            found, status, RESTORE_PREFIX, "restore_refs", lambda: self._restore(found, dump)
        )

    def restore_status(self, repository: str, task_id: str) -> RefsTask:
        """The progress of a restore."""
        found = self._refs.repositories.get(repository)
        return _refs_task(self._tasks.get(found, task_id, RESTORE_PREFIX, messages.RepositoryRestoreStatus))

    def _dump(self, found: Repository) -> RefsDump:
        files = self._dump_files(found)
        branches = files.write("branch", map(branch_record, self._refs.branches.scan(found)))
        tags = files.write("tag", map(tag_record, self._refs.tags.scan(found)))
        commits = files.write("commit", self._commit_rows(found))
        dump = RefsDump(commits, tags, branches)
        files.write_manifest(dump)
        return dump

    def _restore(self, found: Repository, dump: RefsDump) -> None:
        refs = self._read_dump(found, dump)
        self._require_room(found, refs)
        for commit_id, raw in refs.commits.items():
            with suppress(PredicateFailedError):
                self._kv.set_if(found.partition, commit_key(commit_id), raw, None)
        for tag in refs.tags:
            with suppress(TagExistsError):
                self._refs.tags.create(found, tag)
        for branch in refs.branches:
            with suppress(BranchExistsError):
                self._refs.branches.create(found, branch)
        self._require_room(found, refs)  # another dump may have been restored meanwhile

    def _read_dump(self, found: Repository, dump: RefsDump) -> _Refs:
        files = self._dump_files(found)
        try:
            commits = {_commit_id(raw): raw for _, raw in files.read("commit", dump.commits)}
            tags = [Tag.decode(raw) for _, raw in files.read("tag", dump.tags)]
            heads = [Branch.decode(raw) for _, raw in files.read("branch", dump.branches)]
        except FormatError as error:
            raise InvalidDumpError(f"invalid refs dump: {error}") from None
        except NotFoundError as error:
            raise MissingError(f"{error}: not found") from None
        branches = [replace(each, staging_token=new_staging_token(found.name, each.name)) for each in heads]
        _check_heads(commits, tags, branches)
        return _Refs(commits, tags, branches)

    def _require_room(self, found: Repository, refs: _Refs) -> None:
        wanted_tags = {each.name: each.commit_id for each in refs.tags}
        wanted_branches = {each.name: each.commit_id for each in refs.branches}
        if (
            any(each.id not in refs.commits for each in self._refs.commits.all(found))
            or any(wanted_tags.get(each.name) != each.commit_id for each in self._refs.tags.scan(found))
            or any(
                wanted_branches.get(each.name) != each.commit_id for each in self._refs.branches.scan(found)
            )
        ):
            raise NotBareError

    def _commit_rows(self, found: Repository) -> Iterator[tuple[bytes, Value]]:
        prefix = commit_key("")
        for row in self._kv.scan(found.partition, prefix):
            if not row.key.startswith(prefix):
                return
            yield commit_record(row.key.removeprefix(prefix).decode(), row.value)

    def _dump_files(self, found: Repository) -> DumpFiles:
        return DumpFiles(self._namespaces.of(found).objects, self._rule)


def _refs_task(status: Status) -> RefsTask:
    task = status.task
    return RefsTask(
        task.id, task.done, messages.from_timestamp(task.updated_at), error=task.error_msg or None
    )


def _commit_id(raw: bytes) -> str:
    commit = Commit.decode(raw)
    expected = expected_id(commit)
    if commit.id != expected:
        raise InvalidDumpError(f"invalid refs dump: commit {commit.id} is not the hash {expected}")
    return commit.id


def _check_heads(commits: Container[str], tags: Iterable[Tag], branches: Iterable[Branch]) -> None:
    heads = [(tag.name, tag.commit_id) for tag in tags]
    heads += [(branch.name, branch.commit_id) for branch in branches]
    for name, commit_id in heads:
        if commit_id not in commits:  # a real server crashes on such a branch (L41)
            raise InvalidDumpError(f"invalid refs dump: {name} names the unknown commit {commit_id}")
