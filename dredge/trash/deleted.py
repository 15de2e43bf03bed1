"""The cleaner of the design's step 2: deleted repositories, handed over in `graveler_deleted`.

    for each repo/<repository>/<xid>:
        delete every row of <repository>-<xid>; then delete the entry
    a failure at any step: keep the entry, continue with the next

The entry stays until its partition is empty, so a repetition continues a run that was killed.

Three rules are stricter than the design. A partition with a record is skipped: an active record proves the entry wrong,
one in deletion means that the deletion continues. Only rows of the run's plan are deleted, for limits and approvals.
Every row is first in the undo log, and is deleted only with its exact value.

Source: design "Repository operations error handling", trash cleaner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Literal

from dredge.errors import DredgeError, LeaseHeldError
from dredge.kv.rows import Guard, GuardFailedError, Row, RowCleaner, RowView, show
from dredge.lakefs.files.records import Repository
from dredge.trash.apply import GROUP_ROWS, noted_contents, row_digest
from dredge.trash.names import DELETED, REPOSITORIES, REPOSITORY_PREFIX, Instance, deleted_instance
from dredge.trash.undo import UndoLog

_ENTRY_PREFIX = b"repo/"


@dataclass(frozen=True, slots=True)
class DeletedOutcome:
    """The outcome of one entry.

    Args:
        fate: `cleaned`: partition and entry are deleted; `skipped` or `failed`: the entry stays for the next run.
    """

    entry: str
    fate: Literal["cleaned", "skipped", "failed"]
    rows: int
    message: str = ""
    error: DredgeError | None = None

    @property
    def removed_partition(self) -> bytes | None:
        """The repository's partition, if rows of it were deleted."""
        instance = deleted_instance(self.entry.encode())
        return instance.partition if instance and self.rows else None

    @property
    def rows_removed(self) -> int:
        """Number of deleted rows, including the entry."""
        return self.rows + (self.fate == "cleaned")


def clean_deleted(
    store: RowCleaner,
    undo: UndoLog,
    check_right: Callable[[], None],
    planned: Mapping[bytes, str],
    group_rows: int = GROUP_ROWS,
) -> Iterator[DeletedOutcome]:
    """Delete the rows of deleted repositories, entry by entry.

    Args:
        planned: the planned partitions, each with the digest of its rows in the plan ("" without rows: only the entry
            is deleted). A later entry, or one with other rows, is left for the next plan: it is neither approved nor
            counted by a limit.
    """
    with store.view() as view:
        entries = [Row(DELETED, entry.key, entry.value) for entry in view.scan(DELETED, _ENTRY_PREFIX)]
    for entry in entries:
        if not entry.key.startswith(_ENTRY_PREFIX):
            continue
        outcome = _clean(store, undo, entry, check_right, planned, group_rows)
        yield outcome
        if isinstance(outcome.error, LeaseHeldError):
            raise outcome.error


def _clean(
    store: RowCleaner,
    undo: UndoLog,
    entry: Row,
    check_right: Callable[[], None],
    planned: Mapping[bytes, str],
    group_rows: int,
) -> DeletedOutcome:
    name = show(entry.key)
    instance = deleted_instance(entry.key)
    if instance is None:
        return DeletedOutcome(name, "skipped", 0, "not repo/<repository>/<xid>: left alone")
    deleted, seen = 0, None
    try:
        while True:
            with store.view() as view:
                guard, named = _record(view, instance)
                if seen is None:
                    seen = _planned_rows(view, instance.partition, planned)
                rows, is_empty = _next_rows(view, instance.partition, seen, group_rows)
            if named:
                return DeletedOutcome(
                    name, "skipped", deleted, "a record still references this life of the repository"
                )
            if instance.partition not in planned:
                return DeletedOutcome(
                    name, "skipped", 0, "not in the plan of this run: left for the next one"
                )
            if is_empty:
                break
            if not rows:
                return DeletedOutcome(
                    name, "skipped", deleted, "it has other rows than the run planned: left for the next one"
                )
            undo.write(rows)
            check_right()
            gone = sum(store.delete_rows(rows, [guard]))
            deleted += gone
            if not gone:
                return DeletedOutcome(name, "skipped", deleted, "its rows change as they are deleted")
        undo.write([entry])
        check_right()
        if store.delete_rows([entry], [guard]) == [True]:
            return DeletedOutcome(name, "cleaned", deleted)
        return DeletedOutcome(name, "skipped", deleted, "the entry was changed")
    except GuardFailedError as error:
        return DeletedOutcome(name, "skipped", deleted + sum(error.outcomes), str(error))
    except DredgeError as error:
        return DeletedOutcome(name, "failed", deleted, str(error), error)


def _record(view: RowView, instance: Instance) -> tuple[Guard, bool]:
    """The repository's record as a guard, and whether it is of this life."""
    key = REPOSITORY_PREFIX + instance.repository.encode()
    found = next((entry.value for entry in view.scan(REPOSITORIES, key) if entry.key == key), None)
    guard = Guard(REPOSITORIES, key, found)
    return guard, found is not None and Repository.decode(found).partition == instance.partition


def _planned_rows(view: RowView, partition: bytes, planned: Mapping[bytes, str]) -> Set[bytes]:
    """Digests of a partition's rows; none if they differ from the plan."""
    if not planned.get(partition):
        return frozenset()
    found, seen = noted_contents(view, partition)
    return seen if found is not None and found.digest == planned[partition] else frozenset()


def _next_rows(view: RowView, partition: bytes, seen: Set[bytes], most: int) -> tuple[list[Row], bool]:
    """The next planned rows, and whether the partition is empty."""
    entries = view.scan(partition)
    if not seen:
        return [], next(iter(entries), None) is None
    is_empty, rows = True, []
    for entry in entries:
        is_empty = False
        if row_digest(entry.key, entry.value) in seen:
            rows.append(Row(partition, entry.key, entry.value))
            if len(rows) == most:
                break
    return rows, is_empty
