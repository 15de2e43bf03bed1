"""What of a run's deletions would come back, and what was brought back before."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dredge.errors import DredgeError
from dredge.gc.plan import PLAN
from dredge.pages.history import plan_of, uri_of
from dredge.pages.places import Place
from dredge.pages.undoing import UNDOING, undoing_of
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.lifetimes import run_ids
from dredge.storage import open_reader, open_writer
from dredge.undo.config import RestoreConfig
from dredge.undo.deleted import Choice
from dredge.undo.putting_back import OUTCOMES, RestoreOutput
from dredge.undo.restore import FOLDER
from dredge.xid import descending_time

SHOWN = 20
CHOOSING = ("prefix", "address", "reason", "all")
"""Fields of which one must be given."""
_ASKED = (*CHOOSING, "keep_days", "because")
KEPT_SECONDS = 20.0
_COUNTED_MAX = 100


@dataclass(frozen=True, slots=True)
class EarlierRestore:
    """A restore that was done or begun.

    Attributes:
        started_at: when.
        asked: what was to come back, in words.
        text: what came of it.
        failed: whether something did not come back.
    """

    started_at: datetime
    asked: str
    text: str
    failed: bool


@dataclass(slots=True)
class _Counted:
    """What was counted, when, and the lock that lets one of those who ask at once count."""

    at: float = 0.0
    choice: Choice | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


_counted: dict[RestoreConfig, _Counted] = {}
_lock = threading.Lock()


def config_of(place: Place, run_id: str, asked: Mapping[str, str]) -> RestoreConfig:
    """Read what a form asks for.

    Args:
        place: whose run.
        run_id: the run that deleted.
        asked: fields of the form; those that were left empty count as not given.

    Raises:
        ConfigError: it asks for nothing, or for what does not go together.
        NotFoundError: runs of this kind delete nothing that could come back.
    """
    undoing = undoing_of(place)
    uri = uri_of(place, run_id)
    repository = plan_of(place, run_id)[undoing.planned]
    given = {name: value for name, value in asked.items() if name in _ASKED and value}
    return undoing.config.from_params({undoing.setting: repository, "run": uri, **given})


def params_of(place: Place, config: RestoreConfig) -> dict[str, Any]:
    """What a run of the DAG is started with."""
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
    """The command that brings back what a form asks for; names are quoted, as they are strangers' texts."""
    undoing = undoing_of(place)
    named = [plan_of(place, run_id)[undoing.planned]] if undoing.command_names_repository else []
    words = [*undoing.command, *named, uri_of(place, run_id)]
    for name in ("prefix", "address", "reason"):
        words += [f"--{name}", asked[name]] if asked.get(name) else []
    return shlex.join(words + (["--all"] if asked.get("all") else []))


def choice_of(place: Place, config: RestoreConfig) -> Choice:
    """Say what would come back: the dry run of a restore. Raises as `preview` does.

    It is counted once in `KEPT_SECONDS`, however many people ask; the restore itself looks anew.
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
            text = f"it cannot be read: {error}"
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
        text=text or "nothing fitted",
        failed=summary is None or summary.status != "success",
    )
