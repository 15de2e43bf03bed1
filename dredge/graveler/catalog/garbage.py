"""Calls that garbage collection makes."""

from __future__ import annotations

import secrets
import string

from dredge.errors import DredgeError
from dredge.graveler import messages
from dredge.graveler.catalog.copies import Copies
from dredge.graveler.catalog.core import CatalogCore
from dredge.graveler.catalog.results import PreparedCommits, PreparedUncommitted, PrepareStatus
from dredge.graveler.catalog.uncommitted import Mark, PageFile, UncommittedPage
from dredge.graveler.errors import GravelerError, RulesNotFoundError, TaskNotFoundError
from dredge.graveler.refs.records import Repository
from dredge.graveler.retention.active import active_commits
from dredge.graveler.retention.prepared import ADDRESSES_KEY, commits_csv, commits_key, uncommitted_key
from dredge.graveler.retention.rules import Rules, delete_rules, read_rules, write_rules
from dredge.graveler.xid import new_descending_xid, new_xid
from dredge.kv import KeyNotFoundError

OPERATION = "gc_prepare_commits"
_TASK_PREFIX = "GCPC"
_TASK_ALPHABET = string.ascii_letters + string.digits + "_-"


class GarbageCalls(CatalogCore):
    """Rules, active commits, uncommitted addresses."""

    def get_gc_rules(self, repository: str) -> Rules:
        """Read the rules.

        Raises:
            RulesNotFoundError: 404.
        """
        return read_rules(self._namespace(self._repositories.get(repository)).objects)

    def set_gc_rules(self, repository: str, rules: Rules) -> None:
        """Replace the rules."""
        write_rules(self._namespace(self._writable(repository)).objects, rules)

    def delete_gc_rules(self, repository: str) -> None:
        """Remove the rules (an empty file stays)."""
        delete_rules(self._namespace(self._writable(repository)).objects)

    def prepare_commits(self, repository: str) -> PreparedCommits:
        """Write the active commits to a CSV.

        Raises:
            RulesNotFoundError: 404 with the text `get gc rules: not found`.
            CommitNotFoundError: 404, a branch's head has no record.
        """
        return self._prepare_commits(self._writable(repository))

    def prepare_commits_async(self, repository: str) -> str:
        """Begin the same in the background, rules or not.

        Returns:
            Task id, `GCPC` and 20 characters.
        """
        found = self._writable(repository)
        self._purge_tasks(found)
        task_id = _TASK_PREFIX + "".join(secrets.choice(_TASK_ALPHABET) for _ in range(20))
        status = messages.GarbageCollectionPrepareStatus(
            task=messages.Task(
                id=task_id,
                updated_at=messages.to_timestamp(self.clock()),
                operation=OPERATION,
                owner_instance_id=self._instance_id,
            )
        )
        self._put_task(found, status)
        if self.settings.background:
            self._start(lambda: self._run_task(found, status))
        else:
            self._run_task(found, status)
        return task_id

    def prepare_commits_status(self, repository: str, task_id: str) -> PrepareStatus:
        """How far a task is.

        Raises:
            TaskNotFoundError: 404, never made or older than 24 h.
        """
        found = self._repositories.get(repository)
        try:
            raw = self._kv.get(found.partition, _task_key(task_id))
        except KeyNotFoundError:
            raise TaskNotFoundError from None
        status = messages.decode(messages.GarbageCollectionPrepareStatus, raw, f"task {task_id}")
        task, info = status.task, status.info
        updated = messages.from_timestamp(task.updated_at)
        if self.clock() - updated > self.settings.task_expiry:
            raise TaskNotFoundError
        result = None
        if task.done and not task.error_msg:
            result = PreparedCommits(info.run_id, info.gc_commits_location, info.gc_addresses_location)
        return PrepareStatus(task_id, task.done, updated, result, task.error_msg or None, task.status_code)

    def prepare_uncommitted(
        self, repository: str, continuation_token: str | None = None
    ) -> PreparedUncommitted:
        """Write one page of the repository's uncommitted addresses.

        Args:
            repository: its name.
            continuation_token: of the page before; None or "" starts a run.

        Raises:
            ContinuationTokenError: 400.
            CommitNotFoundError: 404, a branch's head has no record.
        """
        found = self._writable(repository)
        objects = self._namespace(found).objects
        mark = Mark(new_descending_xid(self.clock()))
        if continuation_token:
            mark = Mark.decode(continuation_token)
        folder = uncommitted_key(mark.run_id)
        location = f"{found.storage_namespace.rstrip('/')}/{folder}"
        if continuation_token and self.settings.defect("repeated_token"):
            objects.put(folder + new_xid(self.clock()), PageFile(1).finish())
            return PreparedUncommitted(mark.run_id, location, continuation_token)
        page = UncommittedPage(
            self._branches,
            self._commits,
            self._areas,
            self._namespace(found).ranges,
            Copies(self._kv),
            found,
            self.clock,
            self.settings,
        ).write(mark)
        following = None if page.next is None else page.next.encode()
        if page.data is None:
            return PreparedUncommitted(mark.run_id, "", following)
        if not self.settings.defect("page_missing"):
            objects.put(folder + new_xid(self.clock()), page.data)
        return PreparedUncommitted(mark.run_id, location, following)

    def _prepare_commits(self, repository: Repository) -> PreparedCommits:
        objects = self._namespace(repository).objects
        try:
            rules = read_rules(objects)
        except RulesNotFoundError:
            raise RulesNotFoundError("get gc rules: not found") from None
        now = self.clock()
        active = active_commits(
            self._commits.all(repository),
            self._branches.scan(repository),
            rules,
            now,
            early_stop=self.settings.defect("active_walk_early_stop"),
        )
        run_id = new_descending_xid(now)
        objects.put(commits_key(run_id), commits_csv(active.values()))
        uri = repository.storage_namespace.rstrip("/")
        return PreparedCommits(run_id, f"{uri}/{commits_key(run_id)}", f"{uri}/{ADDRESSES_KEY}")

    def _run_task(self, repository: Repository, status: messages.GarbageCollectionPrepareStatus) -> None:
        task = status.task
        try:
            result = self._prepare_commits(repository)
        except DredgeError as error:
            task.error_msg = str(error)
            task.status_code = error.status if isinstance(error, GravelerError) else 500
        else:
            status.info.run_id = result.run_id
            status.info.gc_commits_location = result.commits_location
            status.info.gc_addresses_location = result.addresses_location
        task.done = True
        task.updated_at.CopyFrom(messages.to_timestamp(self.clock()))
        self._put_task(repository, status)

    def _put_task(self, repository: Repository, status: messages.GarbageCollectionPrepareStatus) -> None:
        self._kv.set(repository.partition, _task_key(status.task.id), messages.encode(status))

    def _purge_tasks(self, repository: Repository) -> None:
        """Remove the status of tasks that have not changed for long."""
        expired = []
        for entry in self._kv.scan(repository.partition, _task_key(_TASK_PREFIX)):
            if not entry.key.startswith(_task_key(_TASK_PREFIX)):
                break
            status = messages.decode(messages.GarbageCollectionPrepareStatus, entry.value, "task")
            if self.clock() - messages.from_timestamp(status.task.updated_at) > self.settings.task_expiry:
                expired.append(entry.key)
        for key in expired:
            self._kv.delete(repository.partition, key)


def _task_key(task_id: str) -> bytes:
    return f"tasks/{task_id}".encode()
