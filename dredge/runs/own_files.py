"""Removes what collectors wrote for themselves: only names that they say are their own, and only under their lease."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import batched

from dredge.errors import RefusedError
from dredge.runs.perform import StepRecord
from dredge.storage import DeleteOutcome, StorageOptions, open_deleter

_KEYS = 1000


class OwnFilesDeleter:
    """Deletes a collector's own files below one folder, and nothing else.

    Args:
        uri: the folder.
        is_own: whether a key, relative to it, is one that only the collector writes, and a later run can do without.
        options: how the store is reached; None reads the environment.
    """

    def __init__(
        self, uri: str, is_own: Callable[[str], bool], options: StorageOptions | None = None
    ) -> None:
        self._uri = uri
        self._is_own = is_own
        self._deleter = open_deleter(uri, options)

    def delete(self, keys: Sequence[str]) -> list[DeleteOutcome]:
        """Delete files.

        Args:
            keys: relative to the folder.

        Returns:
            One outcome a key, in the same order.

        Raises:
            RefusedError: one of them is no such file. None was deleted.
        """
        for key in keys:
            if not self._is_own(key):
                raise RefusedError(
                    f"{key!r} is not one of Dredge's own files below {self._uri}. Nothing was deleted. Please report"
                    " this."
                )
        return self._deleter.delete(keys)


def remove_own_files(
    deleter: OwnFilesDeleter, keys: Sequence[str], check_right: Callable[[], None], record: StepRecord
) -> None:
    """Remove files that nothing needs any more.

    Args:
        deleter: for the files.
        keys: of these, in the order in which they go.
        check_right: asked before each request; raises where the lease is lost.
        record: of the step; takes the figure, and a warning where files are left.
    """
    outcomes: Counter[str] = Counter()
    for some in batched(keys, _KEYS):
        check_right()
        outcomes.update(outcome.outcome for outcome in deleter.delete(some))
    removed = outcomes["deleted"] + outcomes["missing"]
    record.counts["own_files_removed"] = removed
    if removed < len(keys):
        record.warn(
            f"{len(keys) - removed:,} of {len(keys):,} own files that nothing needs any more could not be removed; a"
            " later run tries again"
        )
