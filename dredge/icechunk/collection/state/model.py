"""What a complete collection leaves for the next one.

Of every chunk that some manifest names, at least one of these is true after such a run, so the next one lists none:

    counted (a live manifest names it) · named by a manifest file that will be listed as dead · not old enough
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dredge.runs.summary import PartInfo
from dredge.sets.live import CountedSet

FORMAT = 3
"""Rises with the index's format when counts must be made anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The state after a run. Files are named, with their digests, not copied.

    Attributes:
        uri: the repository.
        spec_version: 1 or 2.
        run_id: the run it came from.
        run_uri: that run's folder, where `snapshots` is.
        fencing: number of its lease: runs with higher ones came later.
        previous: run whose state this one built on; "" for a clean run.
        mode: "clean" or "optimized".
        started_at: the store's time when the run was planned.
        cutoff: only objects last modified strictly before it were candidates.
        clean_run_id: the last clean run.
        clean_at: when that one was planned.
        optimized_runs: runs since then.
        chunk_objects: chunks in the store, as the last clean run counted them.
        snapshots: file of the snapshots that were live, with their parents and manifests (`base.SNAPSHOTS`).
        virtual: set of the ids that locations of virtual chunks name, and perhaps of some that did since then.
        counted: how many of the manifests that these name hold each chunk, in the folder of lease and index.
        contradicted: snapshots that named other manifests when they were read again; they have what either read names.
        seen: names of the parts of the index that these were compared with; what others say nobody has looked at.
        format: number of the format of states.
    """

    uri: str
    spec_version: int
    run_id: str
    run_uri: str
    fencing: int
    previous: str
    mode: str
    started_at: datetime
    cutoff: datetime
    clean_run_id: str
    clean_at: datetime
    optimized_runs: int
    chunk_objects: int
    snapshots: PartInfo
    virtual: PartInfo
    counted: CountedSet
    contradicted: tuple[str, ...]
    seen: tuple[str, ...]
    format: int = FORMAT
