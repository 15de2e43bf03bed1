"""Drift: what a clean run finds that the optimized runs before it would have missed for ever.

An optimized run looks at what was staged or named before, at the pending list, and at slices that are not covered, or
that objects were brought back into. Garbage beyond that can only be an object that came into its slice later than the
margin allows; anything else is a mistake in the collector, and is said so.
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
from dredge.gc.index.ranges import decode_keys
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import METADATA
from dredge.gc.pending.known import Known
from dredge.gc.referring import Referred
from dredge.gc.run import Run
from dredge.gc.slice_listing import slice_time
from dredge.gc.state import Base, open_base
from dredge.gc.subtract.output import SubtractOutput
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_json
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo
from dredge.sets.hashes import Hashes, contains, read_hashes, unite

log = logging.getLogger("dredge")

_EXAMPLES_MAX = 20


def find_drift(run: Run, record: StepRecord, known: Known) -> dict[str, Any] | None:
    """Compare the candidates of a clean run with what an optimized one would have looked at.

    Args:
        run: this run.
        record: of the subtract step, with its parts.
        known: the pending list of the runs before.

    Returns:
        Figures and a few addresses; None for other runs, and when there was no state or no pending list.
    """
    plan = run.plan
    if plan.mode != CLEAN or plan.state is None or known.pending is None:
        return None
    try:
        base = open_base(run, plan.state)
        seen = unite(list(_looked_at(run, base, record, known)))
    except DredgeError as error:
        record.warn(f"what optimized runs may have missed cannot be told: {error}")
        return None
    parts = [part for part in record.parts if part.name.startswith(f"{SubtractOutput.STEP}/part-")]
    figures, samples = _missed(run, base, parts, seen)
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


def _missed(run: Run, base: Base, parts: list[PartInfo], seen: Hashes) -> tuple[dict[str, int], list[str]]:
    """Count the candidates in covered slices that no optimized run would have looked at."""
    figures = {"objects": 0, "bytes": 0, "late_objects": 0, "unexplained_objects": 0}
    samples: list[str] = []
    margin = timedelta(hours=run.plan.config.slice_margin_hours)
    for rows in run.folder.read_parts(parts, ["address", "size", "last_modified", "hash"]):
        new = rows.filter(pa.array(~contains(seen, rows["hash"].to_numpy())))
        for row in new.to_pylist():
            opened = slice_time(row["address"].rpartition("/")[0])
            if opened is None or not base.state.covered.has(opened) or run.plan.again.has(opened):
                continue
            figures["objects"] += 1
            figures["bytes"] += row["size"]
            late = row["last_modified"] - opened > margin
            figures["late_objects" if late else "unexplained_objects"] += 1
            if len(samples) < _EXAMPLES_MAX:
                samples.append(row["address"])
    return figures, samples


def _looked_at(run: Run, base: Base, record: StepRecord, known: Known) -> Iterator[Hashes]:
    """Hashes of the addresses that an optimized run would have looked at, whatever slice they lie in."""
    state = RunFolder(run.state, base.state.run_id)
    for part in known.parts:
        yield state.read_part(part, ["hash"])["hash"].to_numpy()
    for part in base.state.staged:
        addresses = base.folder.read_part(part, ["address"])["address"]
        yield hash64(addresses.combine_chunks())
    yield from _named_by_others(base)
    table = run.folder.read_part(record.input(ListCommittedOutput).ranges, ["range_id"])
    now = set(table["range_id"].to_pylist())
    by_path = base.folder.read_part(base.state.path_ranges, ["range_id"])["range_id"].to_pylist()
    for range_id in {*base.ranges(), *by_path} - now:
        key = METADATA + range_id
        try:
            yield np.unique(hash64(decode_keys(run.reader.get(key), key, run.plan.namespace)))
        except DredgeError as error:
            log.info("range %s, which is not active any more, cannot be read: %s", range_id, error)


def _named_by_others(base: Base) -> Iterator[Hashes]:
    """What other repositories named: where they do not any more, a clean run follows."""
    summary = base.folder.read_summary(ListCommittedOutput.STEP)
    for item in [] if summary is None else ListCommittedOutput.of(summary).referring:
        for part in from_json(Referred, item).live.shards.values():
            yield read_hashes(base.folder, part)
