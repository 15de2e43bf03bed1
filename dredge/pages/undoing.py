"""How deletions of each kind of collection are taken back: the DAG, the command, and what may be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dredge.errors import NotFoundError
from dredge.gc.restore.config import REASONS, RestoreConfig
from dredge.gc.restore.step import foresee_restore
from dredge.gc.subtract import REASONS as REASON_WORDS
from dredge.icechunk.collection.swept import open_swept
from dredge.icechunk.collection.undo_config import IcechunkRestoreConfig
from dredge.pages.places import ICECHUNK, LAKEFS, Place
from dredge.storage import StorageOptions
from dredge.undo.config import RestoreConfig as AnyRestoreConfig
from dredge.undo.deleted import Choice, preview


@dataclass(frozen=True, slots=True)
class Undoing:
    """How deletions of a kind of collection are taken back.

    Attributes:
        dag: its runs bring back.
        form: last part of the address that a form is sent to.
        command: words that do the same in a terminal, up to the run.
        command_names_repository: whether the repository comes before the run there.
        config: what may be asked for.
        setting: name of the setting that says which repository.
        planned: where a run's plan has that.
        reasons: why objects were deleted, by name, in words.
        preview: says what would come back.
    """

    dag: str
    form: str
    command: tuple[str, ...]
    command_names_repository: bool
    config: type[AnyRestoreConfig]
    setting: str
    planned: str
    reasons: Mapping[str, str]
    preview: Callable[[Any, StorageOptions | None], Choice]


def _of_lakefs(config: RestoreConfig, options: StorageOptions | None) -> Choice:
    return foresee_restore(config, config.run, options)


def _of_icechunk(config: IcechunkRestoreConfig, options: StorageOptions | None) -> Choice:
    return preview(config, open_swept(config.run, config.repository, options))


UNDOING: Mapping[str, Undoing] = {
    LAKEFS: Undoing(
        dag="lakefs_gc_restore",
        form="restore",
        command=("dredge", "gc", "restore"),
        command_names_repository=False,
        config=RestoreConfig,
        setting="repository",
        planned="repository",
        reasons={name: REASON_WORDS[name] for name in REASONS},
        preview=_of_lakefs,
    ),
    ICECHUNK: Undoing(
        dag="icechunk_restore",
        form="restore-icechunk",
        command=("dredge", "icechunk", "restore"),
        command_names_repository=True,
        config=IcechunkRestoreConfig,
        setting="storage",
        planned="uri",
        reasons={
            "unreachable": "no branch, tag or snapshot that is kept reaches it",
            "overwritten": "an old copy of the repo info",
        },
        preview=_of_icechunk,
    ),
}


def undoing_of(place: Place) -> Undoing:
    """Say how deletions in a place are taken back.

    Raises:
        NotFoundError: its runs delete no objects.
    """
    if place.kind not in UNDOING:
        raise NotFoundError("only runs of a lakeFS or Icechunk collection can be taken back here")
    return UNDOING[place.kind]
