"""The preview of a restore, its settings and command, and earlier restores: of objects, or of key-value rows."""

import shlex
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dredge.errors import ConfigError, DredgeError, NotFoundError
from dredge.gc.config import REASONS
from dredge.gc.config import RestoreConfig as LakeFSRestoreConfig
from dredge.gc.run import PLAN
from dredge.gc.subtract import REASONS as REASON_WORDS
from dredge.gc.undo import open_swept as open_lakefs_run
from dredge.icechunk.collection.check_again import open_swept
from dredge.icechunk.collection.config import IcechunkRestoreConfig
from dredge.pages.history import plan_of, uri_of
from dredge.pages.places import ICECHUNK, KV, LAKEFS, Facts, Place
from dredge.pages.trash import report_of_trash
from dredge.runs.folder import RunFolder, read_json, run_ids
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.undo.deleted import Choice, preview
from dredge.undo.putting_back import OUTCOMES, RestoreOutput
from dredge.undo.restore import FOLDER
from dredge.undo.ways import RestoreConfig
from dredge.xid import descending_time


@dataclass(frozen=True, slots=True)
class Undoing:
    """How to restore the deletions of a kind of collection."""

    dag: str
    form: str
    command: tuple[str, ...]  # of the terminal, up to the run
    command_names_repository: bool  # whether the repository precedes the run there
    config: type[RestoreConfig]
    setting: str
    planned: str  # name of the same value in a run's plan
    reasons: Mapping[str, str]
    preview: Callable[[Any, StorageOptions | None], Choice]


UNDOING: Mapping[str, Undoing] = {
    LAKEFS: Undoing(
        dag="lakefs_gc_restore",
        form="restore",
        command=("dredge", "gc", "restore"),
        command_names_repository=False,
        config=LakeFSRestoreConfig,
        setting="repository",
        planned="repository",
        reasons={name: REASON_WORDS[name] for name in REASONS},
        preview=lambda config, options: preview(config, open_lakefs_run(config.run, options=options)),
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
            "unreachable": "not reachable from a branch, tag or kept snapshot",
            "overwritten": "an old copy of the repo info",
        },
        preview=lambda config, options: preview(config, open_swept(config.run, config.repository, options)),
    ),
}


def undoing_of(place: Place) -> Undoing:
    """Return the kind of restore for a place."""
    if place.kind not in UNDOING:
        raise NotFoundError("only deletions of a lakeFS or Icechunk collection can be restored here")
    return UNDOING[place.kind]


SHOWN = 20
# Fields of the selection; at least one is required.
CHOOSING = ("prefix", "address", "reason", "all")
_ASKED = (*CHOOSING, "keep_days", "because")
KEPT_SECONDS = 20.0
_COUNTED_MAX = 100


@dataclass(frozen=True, slots=True)
class EarlierRestore:
    """A finished or unfinished restore."""

    started_at: datetime
    asked: str
    text: str
    failed: bool


@dataclass(slots=True)
class _Counted:
    at: float = 0.0
    choice: Choice | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


_counted: dict[RestoreConfig, _Counted] = {}
_lock = threading.Lock()


def config_of(place: Place, run_id: str, asked: Mapping[str, str]) -> RestoreConfig:
    """Read the fields of a form."""
    undoing = undoing_of(place)
    uri = uri_of(place, run_id)
    repository = plan_of(place, run_id)[undoing.planned]
    given = {name: value for name, value in asked.items() if name in _ASKED and value}
    return undoing.config.from_params({undoing.setting: repository, "run": uri, **given})


def params_of(place: Place, config: RestoreConfig) -> dict[str, Any]:
    """Return the settings of a run of the restoring DAG."""
    values = {
        undoing_of(place).setting: config.repository,
        "run": config.run,
        "prefix": config.prefix,
        "address": config.address,
        "reason": config.reason,
        "keep_days": config.keep_days,
        "because": config.because,
    }
    return {**{name: value for name, value in values.items() if value is not None}, "all": config.everything}


def command_of(place: Place, run_id: str, asked: Mapping[str, str]) -> str:
    """Return the command for the selection of a form, with all names quoted because they are untrusted."""
    undoing = undoing_of(place)
    named = [plan_of(place, run_id)[undoing.planned]] if undoing.command_names_repository else []
    words = [*undoing.command, *named, uri_of(place, run_id)]
    for name in ("prefix", "address", "reason"):
        words += [f"--{name}", asked[name]] if asked.get(name) else []
    return shlex.join(words + (["--all"] if asked.get("all") else []))


def choice_of(place: Place, config: RestoreConfig) -> Choice:
    """Count the objects of a restore; raises as `preview`.

    The count is cached for `KEPT_SECONDS` for all users; the restore itself counts again.
    """
    with _lock:
        counted = _counted.setdefault(config, _Counted())
        while len(_counted) > _COUNTED_MAX:
            del _counted[next(iter(_counted))]
    with counted.lock:
        if counted.choice is None or time.monotonic() - counted.at >= KEPT_SECONDS:
            counted.choice = undoing_of(place).preview(config, place.options)
            counted.at = time.monotonic()
        return counted.choice


def restores_of(place: Place, run_id: str) -> list[EarlierRestore]:
    """List the restores of a run, the newest first."""
    if place.kind not in UNDOING:
        return []
    uri = f"{uri_of(place, run_id)}/{FOLDER}"
    found = []
    for restore_id in run_ids(open_reader(uri, place.options))[:SHOWN]:
        folder = RunFolder(open_writer(f"{uri}/{restore_id}", place.options), restore_id)
        try:
            found.append(_restore(folder))
        except (DredgeError, KeyError, TypeError) as error:
            text = f"unreadable: {error}"
            found.append(EarlierRestore(descending_time(restore_id), "", text, failed=True))
    return found


def _restore(folder: RunFolder) -> EarlierRestore:
    plan = read_json(folder.writer, PLAN)
    asked = plan["asked"]
    words = [f"{name} {asked[name]}" for name in ("address", "prefix", "reason") if asked.get(name)]
    summary = folder.read_summary(RestoreOutput.STEP) or folder.read_incomplete(RestoreOutput.STEP)
    text = "not finished"
    if summary is not None:
        counts = {name: summary.counts.get(f"{name}_objects", 0) for name in OUTCOMES}
        text = "; ".join(f"{count:,} {OUTCOMES[name]}" for name, count in counts.items() if count)
    return EarlierRestore(
        started_at=datetime.fromisoformat(plan["created_at"]),
        asked=", ".join(words) or "everything",
        text=text or "no deletion matched",
        failed=summary is None or summary.status != "success",
    )


# Its runs restore rows.
ROWS_DAG = "kv_trash_restore"
PARTITIONS_SHOWN = 500
_CONNECTION = "kv_conn_id"


@dataclass(frozen=True, slots=True)
class Removed:
    """The rows removed by a run."""

    rows: int
    partitions: list[tuple[str, int]]  # rows by partition, the largest first, at most `PARTITIONS_SHOWN`


def removed_by(report: Mapping[str, Any]) -> Removed:
    """Add up the removed rows of a run."""
    rows = Counter[str]()
    for item in report.get("outcomes", ()):
        rows[item["partition"]] += item["rows_deleted"]
    found = [(name, count) for name, count in rows.most_common(PARTITIONS_SHOWN) if count]
    return Removed(report.get("rows_removed", 0), found)


def row_settings_of(place: Place, run_id: str, partition: str, known: Facts) -> dict[str, Any]:
    """Return the settings of a run of the DAG that restores rows.

    The connection is from the place's schedule. The state folder identifies its store, so rows are never written to
    another store.
    """
    if place.kind != KV:
        raise NotFoundError("only rows of a key-value store are restored here")
    uri_of(place, run_id)
    removed = removed_by(report_of_trash(place, run_id))
    if not removed.rows or (partition and partition not in dict(removed.partitions)):
        raise ConfigError("no removed row of the run matches the filter. Nothing was started.")
    connections = [
        item.settings[_CONNECTION] for item in known.schedules_of(place) if _CONNECTION in item.settings
    ]
    asked = {"state_uri": place.store_uri, "run": run_id, "dry_run": False}
    return {
        **asked,
        **({"partition": partition} if partition else {}),
        **({_CONNECTION: connections[0]} if connections else {}),
    }
