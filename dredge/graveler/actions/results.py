"""Results of runs: values, and their records in the key-value store.

    actions    repos/<repository>/runs/<run>                RunResultData
               repos/<repository>/tasks/<run>/<hook run>    TaskResultData
               repos/<repository>/branches/<branch>/<run>   SecondaryIndex → the run
               repos/<repository>/commits/<commit>/<run>    SecondaryIndex → the run

The repository is its name, not an instance of it: results survive a deletion, as on a real server. The newest run
sorts first.

Source: lakeFS pkg/actions/service.go, store.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dredge.graveler import messages
from dredge.graveler.actions.text import NEVER
from dredge.graveler.catalog.paging import take_page
from dredge.graveler.catalog.results import Page
from dredge.graveler.errors import BadRequestError, MissingError
from dredge.kv import KeyNotFoundError, Store

PARTITION = b"actions"


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run: all hooks of one event.

    Attributes:
        id: newer ones sort first.
        event: name of the event.
        source: ref whose action files counted.
        branch: branch that changed; "" for tags.
        commit_id: what was committed, as far as the event knew.
        start: when the first hook began.
        end: when the last one ended.
        passed: no hook failed.
    """

    id: str
    event: str
    source: str
    branch: str
    commit_id: str
    start: datetime
    end: datetime
    passed: bool


@dataclass(frozen=True, slots=True)
class HookResult:
    """What became of one hook in a run.

    Attributes:
        id: numbers of action and hook, such as `0000_0001`.
        hook: id of the hook in its action.
        action: name of the action.
        start: when it began; NEVER if it was skipped.
        end: when it ended; NEVER if it was skipped.
        passed: it ran and did not fail.
    """

    id: str
    hook: str
    action: str
    start: datetime
    end: datetime
    passed: bool

    @property
    def skipped(self) -> bool:
        """Whether it did not run."""
        return self.start == NEVER


class Results:
    """The results of all repositories.

    Args:
        kv: holds their records.
    """

    def __init__(self, kv: Store) -> None:
        self._kv = kv

    def save(self, repository: str, run: RunResult, hooks: Sequence[HookResult]) -> None:
        """Write a run: its hooks first, then the indexes, then the run itself."""
        for hook in hooks:
            record = messages.TaskResultData(
                run_id=run.id,
                hook_run_id=hook.id,
                hook_id=hook.hook,
                action_name=hook.action,
                start_time=messages.to_timestamp(hook.start),
                end_time=messages.to_timestamp(hook.end),
                passed=hook.passed,
            )
            self._kv.set_if(
                PARTITION, _key(repository, "tasks", run.id, hook.id), messages.encode(record), None
            )
        self._save_run(repository, run)

    def add_commit(
        self, repository: str, run_id: str, commit_id: str
    ) -> tuple[RunResult, list[HookResult]] | None:
        """Tell a run the commit that was made after it approved; None if nothing is to be changed."""
        try:
            run = self.run(repository, run_id)
        except MissingError:
            return None  # no hook ran
        if run.commit_id == commit_id:
            return None
        run = replace(run, commit_id=commit_id)
        self._save_run(repository, run)
        return run, list(self._hooks(repository, run_id, ""))

    def run(self, repository: str, run_id: str) -> RunResult:
        """Look a run up.

        Raises:
            MissingError: 404.
        """
        return self._read(_key(repository, "runs", run_id))

    def runs(
        self, repository: str, *, branch: str = "", commit_id: str = "", after: str = "", amount: int = 100
    ) -> Page[RunResult]:
        """List runs, newest first.

        Args:
            repository: its name.
            branch: only those about a branch.
            commit_id: only those about a commit.
            after: last id of the previous page.
            amount: maximum number of results, at most 1000.

        Raises:
            BadRequestError: 400, branch and commit together.
        """
        if branch and commit_id:
            raise BadRequestError("can't use both branchID and MergedCommitID: parameters conflict")
        if branch:
            found = self._indexed(_key(repository, "branches", branch, ""), after)
        elif commit_id:
            found = self._indexed(_key(repository, "commits", commit_id, ""), after)
        else:
            found = self._all(_key(repository, "runs", ""), after)
        return take_page(found, amount, lambda run: run.id)

    def hooks(self, repository: str, run_id: str, *, after: str = "", amount: int = 100) -> Page[HookResult]:
        """List the hooks of a run in the order of their numbers; none for an unknown run."""
        return take_page(self._hooks(repository, run_id, after), amount, lambda hook: hook.id)

    def hook(self, repository: str, run_id: str, hook_run: str) -> HookResult:
        """Look a hook of a run up.

        Raises:
            MissingError: 404.
        """
        key = _key(repository, "tasks", run_id, hook_run)
        try:
            return _hook(self._kv.get(PARTITION, key), key)
        except KeyNotFoundError:
            raise MissingError from None

    def _save_run(self, repository: str, run: RunResult) -> None:
        key = _key(repository, "runs", run.id)
        index = messages.encode(messages.SecondaryIndex(primary_key=key))
        if run.branch:
            self._kv.set(PARTITION, _key(repository, "branches", run.branch, run.id), index)
        if run.commit_id:
            self._kv.set(PARTITION, _key(repository, "commits", run.commit_id, run.id), index)
        record = messages.RunResultData(
            run_id=run.id,
            branch_id=run.branch,
            commit_id=run.commit_id,
            source_ref=run.source,
            event_type=run.event,
            start_time=messages.to_timestamp(run.start),
            end_time=messages.to_timestamp(run.end),
            passed=run.passed,
        )
        self._kv.set(PARTITION, key, messages.encode(record))

    def _read(self, key: bytes) -> RunResult:
        try:
            record = messages.decode(messages.RunResultData, self._kv.get(PARTITION, key), key.decode())
        except KeyNotFoundError:
            raise MissingError("not found: not found") from None
        return RunResult(
            id=record.run_id,
            event=record.event_type,
            source=record.source_ref,
            branch=record.branch_id,
            commit_id=record.commit_id,
            start=messages.from_timestamp(record.start_time),
            end=messages.from_timestamp(record.end_time),
            passed=record.passed,
        )

    def _all(self, prefix: bytes, after: str) -> Iterator[RunResult]:
        for key, _ in self._below(prefix, after):
            yield self._read(key)

    def _indexed(self, prefix: bytes, after: str) -> Iterator[RunResult]:
        """Runs by an index. For branch `a` a real server also lists those of `ab`."""
        for _, value in self._below(prefix, after):
            target = messages.decode(messages.SecondaryIndex, value, "index of runs").primary_key
            try:
                yield self._read(target)
            except MissingError:
                continue  # being written, or removed behind the index

    def _hooks(self, repository: str, run_id: str, after: str) -> Iterator[HookResult]:
        for key, value in self._below(_key(repository, "tasks", run_id, ""), after):
            yield _hook(value, key)

    def _below(self, prefix: bytes, after: str) -> Iterator[tuple[bytes, bytes]]:
        start = prefix + after.encode("utf-8", "surrogateescape")
        for entry in self._kv.scan(PARTITION, start):
            if not entry.key.startswith(prefix):
                return
            if entry.key != start:
                yield entry.key, entry.value


def _hook(value: bytes, key: bytes) -> HookResult:
    record = messages.decode(messages.TaskResultData, value, key.decode("utf-8", "replace"))
    return HookResult(
        id=record.hook_run_id,
        hook=record.hook_id,
        action=record.action_name,
        start=messages.from_timestamp(record.start_time),
        end=messages.from_timestamp(record.end_time),
        passed=record.passed,
    )


def _key(repository: str, *parts: str) -> bytes:
    return "/".join(("repos", repository, *parts)).encode("utf-8", "surrogateescape")
