"""The cleaner of the design's step 2: repositories that were deleted and handed over in `graveler_deleted`.

    for each repo/<repository>/<xid>:
        delete every row of <repository>-<xid>; when all are gone, delete the entry
    a failure at any step: leave the entry, go on with the next

The entry stays until its partition is empty, so a run that was killed is simply run again.

Three things are stricter than the design. A partition that a record still names is skipped, whatever the
entry says: an active record means that the entry is wrong, one in deletion that the deletion has not
finished. Only what the run's plan names goes, with the rows that the plan saw, so that limits and approvals hold. And
every row is written to the undo log first, and deleted only with its very value.

Source: design "Repository operations error handling", trash cleaner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Literal

from dredge.errors import DredgeError, LeaseHeldError
from dredge.kv.rows import Guard, GuardFailedError, Row, RowCleaner, RowView, show
from dredge.trash.apply import GROUP_ROWS, noted_contents, row_digest
from dredge.trash.names import DELETED, REPOSITORIES, REPOSITORY_PREFIX, Instance, deleted_instance
from dredge.trash.undo import UndoLog

_ENTRY_PREFIX = b"repo/"


@dataclass(frozen=True, slots=True)
class DeletedOutcome:
    """What became of one entry.

    Args:
        entry: its key as text.
        fate: `cleaned`: partition and entry are gone; `skipped`: it must stay as things are; `failed`: the store
            did not do it. The entry stays for the next run.
        rows: how many rows of the partition were deleted.
        message: why it stayed.
        error: the store's, where it failed.
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
        """How many rows were deleted, the entry among them."""
        return self.rows + (self.fate == "cleaned")


def clean_deleted(
    store: RowCleaner,
    undo: UndoLog,
    check_right: Callable[[], None],
    planned: Mapping[bytes, str],
    group_rows: int = GROUP_ROWS,
) -> Iterator[DeletedOutcome]:
    """Delete what deleted repositories left, entry by entry.

    Args:
        store: what to clean.
        undo: where rows go first.
        check_right: asked right before each deletion; raises when this try was overtaken.
        planned: partitions that may go, each with the digest of the rows that the plan saw there ("" where it saw
            none, and only the entry may go). What was handed over later, or is there with other rows since a request
            that was frozen has written some, is for the next plan: nobody has approved it, and no limit has counted it.
        group_rows: how many rows one request removes at most.

    Yields:
        What became of each entry; one that could not be cleaned does not keep the others back.

    Raises:
        LeaseHeldError: a later try, or somebody else, has taken over.
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
                    name, "skipped", deleted, "a record still names this life of the repository"
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
    """The repository's record as a guard, and whether it is of this life; unreadable records count as
    such."""
    from dredge.lakefs.files.records import Repository

    key = REPOSITORY_PREFIX + instance.repository.encode()
    found = next((entry.value for entry in view.scan(REPOSITORIES, key) if entry.key == key), None)
    guard = Guard(REPOSITORIES, key, found)
    return guard, found is not None and Repository.decode(found).partition == instance.partition


def _planned_rows(view: RowView, partition: bytes, planned: Mapping[bytes, str]) -> Set[bytes]:
    """Digests of the rows of a partition that may go: of all, or of none when they are not those of the plan."""
    if not planned.get(partition):
        return frozenset()
    found, seen = noted_contents(view, partition)
    return seen if found is not None and found.digest == planned[partition] else frozenset()


def _next_rows(view: RowView, partition: bytes, seen: Set[bytes], most: int) -> tuple[list[Row], bool]:
    """The first rows that may go, and whether there is no row at all."""
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
