"""Rows of a key-value store that a run of the cleaner removed: what a form may bring back, and what is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dredge.errors import ConfigError, NotFoundError
from dredge.pages.history import uri_of
from dredge.pages.places import KV, Place
from dredge.pages.surroundings import Facts
from dredge.pages.trash import report_of_trash

DAG = "kv_trash_restore"
"""Its runs put rows back."""
PARTITIONS_SHOWN = 500
_CONNECTION = "kv_conn_id"


@dataclass(frozen=True, slots=True)
class Removed:
    """What a run removed.

    Attributes:
        rows: how many rows.
        partitions: rows by partition, the largest first, at most `PARTITIONS_SHOWN`.
    """

    rows: int
    partitions: list[tuple[str, int]]


def removed_by(report: Mapping[str, Any]) -> Removed:
    """Add up what a run removed.

    Args:
        report: of the run.
    """
    rows = Counter[str]()
    for item in report.get("outcomes", ()):
        rows[item["partition"]] += item["rows_deleted"]
    found = [(name, count) for name, count in rows.most_common(PARTITIONS_SHOWN) if count]
    return Removed(report.get("rows_removed", 0), found)


def settings_of(place: Place, run_id: str, partition: str, known: Facts) -> dict[str, Any]:
    """What a run of the DAG is started with.

    The connection is that of the schedule which cleans the place; the state folder knows its store, so that rows of
    one never go into another.

    Args:
        place: whose run.
        run_id: the run that removed.
        partition: only this one; "" is all.
        known: schedules.

    Raises:
        NotFoundError: no run of the cleaner.
        ConfigError: it removed nothing of the partition.
    """
    if place.kind != KV:
        raise NotFoundError("only rows of a key-value store are put back here")
    uri_of(place, run_id)
    removed = removed_by(report_of_trash(place, run_id))
    if not removed.rows or (partition and partition not in dict(removed.partitions)):
        raise ConfigError("the run removed nothing of that. Nothing was started.")
    connections = [
        item.settings[_CONNECTION] for item in known.schedules_of(place) if _CONNECTION in item.settings
    ]
    asked = {"state_uri": place.store_uri, "run": run_id, "dry_run": False}
    return {
        **asked,
        **({"partition": partition} if partition else {}),
        **({_CONNECTION: connections[0]} if connections else {}),
    }
