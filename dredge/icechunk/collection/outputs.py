"""The results of each step, for later steps."""

import json
from datetime import datetime
from typing import Any

import numpy as np

from dredge.approve import records
from dredge.approve.records import GuardsOutput
from dredge.icechunk.collection.witness.record import KNOWN
from dredge.icechunk.repository import FOLDERS, OBJECT_FOLDERS
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.payload import Detail, NamedPart, PartInfo, StepOutput, from_json
from dredge.runs.pending.store import PendingList
from dredge.runs.versions import Version
from dredge.sets.hashes import Hashes
from dredge.sets.live import CountedSet

COUNTED = "counted"
"""Folder of counts, beside lease and index. Counts are outside run folders because later runs build on them."""
_CHUNKS = "chunks-"
_VIRTUAL = "virtual-"

FOUND = "found-"
"""Prefix of the files of found objects; the files of candidates begin with their kind."""
OUTSIDE = "outside.ids"
_NEW_CHUNKS = "new-chunks-"
CANARIES = "canaries.json"
REPORT = "report.json"
PAGE = "report.html"


class MarkOutput(StepOutput):
    """All live objects: sorted sets of ids, and figures."""

    STEP = "mark"
    pruned = NamedPart("pruned.ids")
    """Set of the transaction logs in the repo info of spec 2 only."""
    virtual = NamedPart("virtual.ids")
    """Set of all ids in locations of virtual chunks, which may be ids of any kind; it may include ids since the last
    clean run."""
    kept_manifests = NamedPart("kept-manifests.json")
    """Manifests of kept, unreachable snapshots only: a JSON list of ids."""
    snapshot_rows = NamedPart("snapshots.parquet")
    """Rows of the live snapshots for the next run; schema `run.SNAPSHOTS`."""
    new_manifests = NamedPart("new-manifests.json")
    """Live manifests without counts in the base (optimized runs): a JSON object by id, with the MD5 of the bytes that
    this run read ("" if an earlier run read them), and the name of the index part with the counted chunks."""
    snapshot_names = NamedPart("snapshots.json")
    """Ids of the live snapshots; see `read_live_snapshots`."""
    chunk_bits: Detail[int] = Detail("chunk_bits")
    """Number of first bits of a chunk's id that select its shard."""
    counted: Detail[CountedSet | None] = Detail("counted", CountedSet, None)
    """Number of live manifests by chunk, in the folder of lease and index; None in a clean dry run."""
    known_etag: Detail[str | None] = Detail("known_etag", default=None)
    """Tag of the last mark's record; None if missing."""
    known_is_damaged: Detail[bool] = Detail("known_is_damaged", default=False)
    """Whether the last mark's record cannot be used."""
    young_until: Detail[datetime | None] = Detail("young_until", datetime, None)
    """Time when the last unneeded young snapshot reaches the minimum age; None without one."""
    seen: Detail[list[str]] = Detail("seen")
    """Names of the parts of the index with snapshots read by this run."""

    def live(self, kind: str) -> PartInfo:
        """Set of the live ids of a kind: snapshots, transactions or manifests."""
        return self.part(f"{kind}.ids")

    @property
    def chunk_shards(self) -> list[list[PartInfo]]:
        """Sets of live chunks, by shard. Ids only in locations of virtual chunks (`is_virtual`) may have no object."""
        shards: list[list[PartInfo]] = [[] for _ in range(1 << self.chunk_bits)]
        for part in [*self.parts(_CHUNKS), *self.virtual_chunks]:
            shards[int(part.name.removesuffix(".ids").rpartition("-")[2])].append(part)
        return shards

    @property
    def virtual_chunks(self) -> list[PartInfo]:
        """Sets of the ids in locations of virtual chunks, in a clean run."""
        return self.parts(_VIRTUAL)

    @property
    def chunks(self) -> int:
        """Number of ids in the sets of live native chunks, with duplicates."""
        return sum(part.rows for part in self.parts(_CHUNKS))

    @property
    def old_refs(self) -> set[tuple[str, str]]:
        """Label and tip of the refs of spec 1 in a repository of spec 2."""
        return {(label, tip) for label, tip in self.summary.details.get("old_refs", ())}

    @property
    def known(self) -> PartInfo | None:
        """Record for the next mark (`witness.record`); None in a report on a planned expiration."""
        found = self.parts(KNOWN)
        return found[0] if found else None


def chunk_set_name(task: int, shard: int, *, is_native: bool = True) -> str:
    """Return the name of a set of native chunks or of ids in virtual locations, relative to the run's folder."""
    return f"{MarkOutput.STEP}/{_CHUNKS if is_native else _VIRTUAL}{task:05d}-{shard:04d}.ids"


def is_virtual(part: PartInfo) -> bool:
    """Whether a set of live chunks comes from locations of virtual chunks."""
    return part.name.startswith(f"{MarkOutput.STEP}/{_VIRTUAL}")


def read_live_snapshots(folder: RunFolder, mark: MarkOutput) -> set[str]:
    """Read the ids of the live snapshots of a mark."""
    return set(json.loads(folder.read_bytes(mark.snapshot_names)))


class ListCandidatesOutput(StepOutput):
    """Candidates, and figures of all listed objects."""

    STEP = "list_candidates"
    INPUTS = (MarkOutput,)
    pending: Detail[dict[str, Any]] = Detail("pending")
    """Figures of the pending list after this run; see `dredge.runs.pending.rows`."""
    waits_anew: Detail[str] = Detail("waits_anew", default="")
    """Reason why all garbage waits again from this run on; "" otherwise."""
    drift: Detail[dict[str, Any] | None] = Detail("drift", default=None)
    """Objects missed by optimized runs; None if unknown."""

    def candidates(self, kind: str) -> list[PartInfo]:
        """Rows of the candidates of a kind; schema `listing.SCHEMA`."""
        return self.parts(f"{kind}-")

    def keys(self, folder: RunFolder, kind: str) -> list[str]:
        """Read the keys of all candidates of a small kind."""
        tables = folder.read_parts(self.candidates(kind), ["address"])
        return [key for table in tables for key in table["address"].to_pylist()]

    def count(self, kind: str, figure: str) -> int:
        """A figure of a kind, such as `candidates_objects` of chunks; 0 for an unlisted kind."""
        return self.counts.get(f"{kind}_{figure}", 0)

    def total(self, figure: str) -> int:
        """Sum of a figure over all kinds."""
        return sum(self.count(kind, figure) for kind in FOLDERS)

    @property
    def written_and_counted(self) -> dict[str, tuple[int, int]]:
        """Numbers of written rows and of counted candidates by kind; both must be equal."""
        return {
            kind: (sum(part.rows for part in self.candidates(kind)), self.count(kind, "candidates_objects"))
            for kind in OBJECT_FOLDERS
        }

    @property
    def pending_list(self) -> tuple[PendingList | None, str | None]:
        """The new pending list without its time, and the ETag of the old pointer; None in a report on a planned
        expiration."""
        found, etag = self.summary.details.get("pending_list", (None, None))
        return None if found is None else from_json(PendingList, found), etag

    @property
    def new_chunks(self) -> list[PartInfo]:
        """Sets of the chunks of new manifests that earlier runs did not count (optimized runs)."""
        return self.parts(_NEW_CHUNKS)

    @property
    def outside(self) -> list[PartInfo]:
        """Set of the ids in the repository's configuration and in referring repositories."""
        return self.parts(OUTSIDE)

    @property
    def absent_chunks(self) -> Hashes:
        """Some unlisted live chunks, sorted."""
        hashes = self.detail("absent").get("chunks", [])
        return np.sort(np.array([int(digits, 16) for digits in hashes], np.uint64))


def new_chunks_name(number: int) -> str:
    """Name of a task's set of new chunks, relative to the run's folder."""
    return f"{ListCandidatesOutput.STEP}/{_NEW_CHUNKS}{number:05d}.ids"


class CheckLimitsOutput(GuardsOutput):
    """Findings of the guards."""

    INPUTS = (MarkOutput, ListCandidatesOutput)

    def read_canaries(self, folder: RunFolder) -> list[str]:
        """Read the keys of the canaries that existed at the check."""
        return list(json.loads(folder.read_bytes(self.part(CANARIES))))


class ApproveOutput(records.ApproveOutput):
    """The question of a collection, and its answer."""

    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)
    GUARDS, CANDIDATES = CheckLimitsOutput, ListCandidatesOutput
    COMMAND = "dredge icechunk"


class BulkDeleteOutput(StepOutput):
    """The outcome of each candidate."""

    STEP = ledger.STEP
    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)
    failures: Detail[list[dict[str, Any]]] = Detail("failures", default=[])
    """Address, code and message of some failed deletions."""

    @property
    def settled(self) -> list[PartInfo]:
        """Rows of the ledger, one for each candidate; none in a dry run."""
        return self.parts("")

    @property
    def deleted_objects(self) -> int:
        """Confirmed deletions; 0 in a dry run."""
        return self.counts.get("deleted_objects", 0)


class VerifyOutput(StepOutput):
    """Checks after the sweep."""

    STEP = "verify"
    INPUTS = (MarkOutput, CheckLimitsOutput, BulkDeleteOutput)


class StateOutput(StepOutput):
    """The state for the next run."""

    STEP = "state"
    INPUTS = (*BulkDeleteOutput.INPUTS, BulkDeleteOutput, VerifyOutput)
    version: Detail[Version] = Detail("version", Version)
    """The written version of the state."""


class SaveReportOutput(StepOutput):
    """Outcome of the run, and place of its report."""

    STEP = "save_report"
    outcome: Detail[str] = Detail("outcome")
    """Outcome of the run: a key of `dredge.runs.report.OUTCOMES`."""
    page: Detail[str] = Detail("page")
    """URI of the report's page."""
