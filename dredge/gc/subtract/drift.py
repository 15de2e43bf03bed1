"""Drift: what a clean run finds that the optimized runs before it would have missed for ever.

An optimized run looks at what was staged or named or carried before, and at slices that are not covered. Garbage
beyond that can only be an object that came into its slice later than the margin allows; anything else is a
mistake in the collector, and is said so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from dredge.errors import DredgeError
from dredge.gc.config import CLEAN
from dredge.gc.index.decoding import keys_of
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.gc.sets.hashes import Hashes, contains, unite
from dredge.gc.slice_listing import slice_time
from dredge.gc.state.base import Base, open_base
from dredge.hashing import hash64
from dredge.runs.perform import StepRecord

log = logging.getLogger("dredge")

_SAMPLES = 20


def find_drift(run: Run, record: StepRecord) -> dict[str, Any] | None:
    """Compare the candidates of a clean run with what an optimized one would have looked at.

    Args:
        run: of the run.
        record: of the subtract step, with its parts.

    Returns:
        Figures and a few addresses; None for other runs, and when there was no state.
    """
    plan = run.plan
    if plan.mode != CLEAN or plan.state is None:
        return None
    try:
        base = open_base(run, plan.state)
        known = unite(list(_known(run, base, record)))
    except DredgeError as error:
        record.warn(f"what optimized runs may have missed cannot be told: {error}")
        return None
    figures: dict[str, Any] = {"objects": 0, "bytes": 0, "late_objects": 0, "unexplained_objects": 0}
    samples: list[str] = []
    for part in record.parts:
        if not part.name.startswith("subtract/part-"):
            continue
        rows = run.folder.read_part(part, ["address", "size", "last_modified", "hash"])
        new = rows.filter(pa.array(~contains(known, rows["hash"].to_numpy())))
        for row in new.to_pylist():
            opened = slice_time(row["address"].rpartition("/")[0])
            if opened is None or not base.state.covered.has(opened):
                continue
            late = row["last_modified"] - opened > timedelta(hours=plan.config.slice_margin_hours)
            figures["objects"] += 1
            figures["bytes"] += row["size"]
            figures["late_objects" if late else "unexplained_objects"] += 1
            if len(samples) < _SAMPLES:
                samples.append(row["address"])
    if figures["unexplained_objects"]:
        record.warn(
            f"{figures['unexplained_objects']:,} objects are garbage that the optimized runs since"
            f" {base.state.clean_run_id} missed although they came in time, such as {samples[0]!r}. Nothing"
            " was lost, but please report this."
        )
    return {
        **figures,
        "samples": samples,
        "since": base.state.clean_run_id,
        "runs": base.state.optimized_runs,
    }


def _known(run: Run, base: Base, record: StepRecord) -> Iterator[Hashes]:
    for part in (*base.state.staged, *base.state.carry):
        addresses = base.folder.read_part(part, ["address"])["address"]
        yield hash64(addresses.combine_chunks())
    table = run.folder.read_part(record.inputs["list_committed"].part("list_committed/ranges-00000.parquet"))
    now = set(table["range_id"].to_pylist())
    by_path = base.folder.read_part(base.state.path_ranges, ["range_id"])["range_id"].to_pylist()
    for range_id in {*base.ranges(), *by_path} - now:
        key = METADATA + range_id
        try:
            yield np.unique(hash64(keys_of(run.reader.get(key), key, run.plan.namespace)))
        except DredgeError as error:
            log.info("range %s, which is not active any more, cannot be read: %s", range_id, error)
