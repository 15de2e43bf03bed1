"""What mark hands to later steps.

What list_candidates hands to later steps.

What check_limits hands to later steps.

What approve hands to later steps.

What bulk_delete hands to later steps.

What verify hands to later steps.

What the state's advance leaves in the run folder.

What save_report leaves.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from dredge.approve import output
from dredge.approve.output import GuardsOutput
from dredge.icechunk.collection.kinds import FOLDERS, OBJECT_FOLDERS
from dredge.icechunk.collection.sets import Ids
from dredge.icechunk.collection.witness.record import KNOWN
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.output import StepOutput
from dredge.runs.payload import from_json
from dredge.runs.pending.store import PendingList
from dredge.runs.summary import PartInfo
from dredge.runs.versions import Version
from dredge.sets.live import CountedSet

SNAPSHOT_NAMES = "snapshots.json"
SNAPSHOT_ROWS = "snapshots.parquet"
NEW_MANIFESTS = "new-manifests.json"
PRUNED = "pruned.ids"
KEPT_MANIFESTS = "kept-manifests.json"
VIRTUAL = "virtual.ids"
COUNTED = "counted"
"""Folder of counts, beside lease and index: not a run's own, because later runs build on them."""
_CHUNKS = "chunks-"
_VIRTUAL = "virtual-"


class MarkOutput(StepOutput):
    """Everything that is live: sorted sets of ids, and figures."""

    STEP = "mark"

    def live(self, kind: str) -> PartInfo:
        """Set of the live ids of a kind; kind is snapshots, transactions or manifests."""
        return self.part(f"{kind}.ids")

    @property
    def pruned(self) -> PartInfo:
        """Set of the transaction logs that only the repo info of spec 2 names."""
        return self.part(PRUNED)

    @property
    def chunk_bits(self) -> int:
        """The first so many bits of a chunk's id say in which shard it is."""
        found: int = self.detail("chunk_bits")
        return found

    @property
    def chunk_shards(self) -> list[list[PartInfo]]:
        """Sets of live chunks, by shard; together the sets of a shard are all of its live chunks. Those that only
        locations of virtual chunks name (`is_virtual`) need not be there."""
        shards: list[list[PartInfo]] = [[] for _ in range(1 << self.chunk_bits)]
        for part in [*self.parts(_CHUNKS), *self.virtual_chunks]:
            shards[int(part.name.removesuffix(".ids").rpartition("-")[2])].append(part)
        return shards

    @property
    def virtual_chunks(self) -> list[PartInfo]:
        """Sets of the ids that locations of virtual chunks name, in a clean run."""
        return self.parts(_VIRTUAL)

    @property
    def virtual(self) -> PartInfo:
        """Set of all ids that locations of virtual chunks name, and perhaps of some that named since the last clean
        run: files of any kind may have them."""
        return self.part(VIRTUAL)

    @property
    def chunks(self) -> int:
        """How many ids the sets of live native chunks have; a chunk that several sets name counts as often."""
        return sum(part.rows for part in self.parts(_CHUNKS))

    @property
    def counted(self) -> CountedSet | None:
        """How many live manifests name each chunk, in the folder of lease and index; None in the dry run of a clean
        run, which needs no counts."""
        found = self.summary.details.get("counted")
        return None if found is None else from_json(CountedSet, found)

    @property
    def kept_manifests(self) -> PartInfo:
        """Live manifests that only kept snapshots name which no ref reaches: a JSON list of ids."""
        return self.part(KEPT_MANIFESTS)

    @property
    def snapshot_rows(self) -> PartInfo:
        """Rows of the live snapshots, for the next run (`state.base.SNAPSHOTS`)."""
        return self.part(SNAPSHOT_ROWS)

    @property
    def old_refs(self) -> set[tuple[str, str]]:
        """Label and tip of the refs of spec 1 in a repository of spec 2."""
        return {(label, tip) for label, tip in self.summary.details.get("old_refs", ())}

    @property
    def known(self) -> PartInfo | None:
        """What this mark leaves for the next one (`witness.record`); None in a report on a planned expiration."""
        found = self.parts(KNOWN)
        return found[0] if found else None

    @property
    def known_etag(self) -> str | None:
        """Tag of what the last mark left; None when there was nothing."""
        found: str | None = self.summary.details.get("known_etag")
        return found

    @property
    def known_is_damaged(self) -> bool:
        """Whether nobody knows what the last mark saw."""
        found: bool = self.summary.details.get("known_is_damaged", False)
        return found

    @property
    def contradicted(self) -> list[str]:
        """Live snapshots that named other manifests when they were read again; what either read names is live."""
        found: list[str] = self.detail("contradicted")
        return found

    @property
    def seen(self) -> list[str]:
        """Names of the parts of the index whose snapshots this run knows."""
        found: list[str] = self.detail("seen")
        return found

    @property
    def new_manifests(self) -> PartInfo:
        """Live manifests that the run it builds on did not count (optimized runs): a JSON object by id, of the MD5 of
        the bytes that this run read ("" where an earlier one had read them), and the name of the part of the index
        that they were counted from."""
        return self.part(NEW_MANIFESTS)

    @property
    def snapshot_names(self) -> PartInfo:
        """Names of the live snapshots; read them with `read_live_snapshots`."""
        return self.part(SNAPSHOT_NAMES)


def chunk_set_name(task: int, shard: int, *, is_native: bool = True) -> str:
    """Name a set of live chunks, relative to the run's folder."""
    return f"{MarkOutput.STEP}/{_CHUNKS if is_native else _VIRTUAL}{task:05d}-{shard:04d}.ids"


def is_virtual(part: PartInfo) -> bool:
    """Whether a set of live chunks is of those that locations of virtual chunks name."""
    return part.name.startswith(f"{MarkOutput.STEP}/{_VIRTUAL}")


def read_live_snapshots(folder: RunFolder, mark: MarkOutput) -> set[str]:
    """Read the ids of the snapshots that the mark found live."""
    return set(json.loads(folder.read_bytes(mark.snapshot_names)))


FOUND = "found-"
"""Begins the names of the files of what was found; those of candidates begin with the kind."""
_NEW_CHUNKS = "new-chunks-"


class ListCandidatesOutput(StepOutput):
    """What may be deleted, and figures of all that was listed."""

    STEP = "list_candidates"
    INPUTS = (MarkOutput,)

    def candidates(self, kind: str) -> list[PartInfo]:
        """Rows of the candidates of a kind, which have waited; schema `candidates.SCHEMA`."""
        return self.parts(f"{kind}-")

    def keys(self, folder: RunFolder, kind: str) -> list[str]:
        """Read the keys of all candidates of a kind: for kinds of which there are few."""
        keys: list[str] = []
        for table in folder.read_parts(self.candidates(kind), ["address"]):
            keys += table["address"].to_pylist()
        return keys

    def count(self, kind: str, figure: str) -> int:
        """Give a figure of a kind, such as `candidates_objects` of chunks; 0 when it was not listed."""
        return self.counts.get(f"{kind}_{figure}", 0)

    def total(self, figure: str) -> int:
        """Give the sum of a figure over all kinds."""
        return sum(self.count(kind, figure) for kind in FOLDERS)

    @property
    def written_and_counted(self) -> dict[str, tuple[int, int]]:
        """Rows that were written, and candidates that were counted, by kind: equal when none was lost."""
        return {
            kind: (sum(part.rows for part in self.candidates(kind)), self.count(kind, "candidates_objects"))
            for kind in OBJECT_FOLDERS
        }

    @property
    def pending(self) -> dict[str, Any]:
        """Figures of the pending list after this run (`dredge.runs.pending.words`)."""
        found: dict[str, Any] = self.detail("pending")
        return found

    @property
    def pending_list(self) -> tuple[PendingList | None, str | None]:
        """The list that this run leaves, but for the time, and the tag of the pointer as it was read; None in a report
        on a planned expiration, which leaves none."""
        found, etag = self.summary.details.get("pending_list", (None, None))
        return None if found is None else from_json(PendingList, found), etag

    @property
    def waits_anew(self) -> str:
        """Why the list before could not be used, so that everything waits anew; "" otherwise."""
        found: str = self.summary.details.get("waits_anew", "")
        return found

    @property
    def drift(self) -> dict[str, Any] | None:
        """What optimized runs had missed; None where nobody can tell."""
        return self.summary.details.get("drift")

    @property
    def new_chunks(self) -> list[PartInfo]:
        """Sets of the chunks that new manifests name and earlier runs did not know (optimized runs)."""
        return self.parts(_NEW_CHUNKS)

    @property
    def absent_chunks(self) -> Ids:
        """Live chunks that were not listed: some of them, sorted."""
        hashes = self.detail("absent").get("chunks", [])
        return np.sort(np.array([int(digits, 16) for digits in hashes], np.uint64))


def new_chunks_name(number: int) -> str:
    """Name a set of new chunks, relative to the run's folder."""
    return f"{ListCandidatesOutput.STEP}/{_NEW_CHUNKS}{number:05d}.ids"


CANARIES = "canaries.json"


class CheckLimitsOutput(GuardsOutput):
    """What each guard found."""

    INPUTS = (MarkOutput, ListCandidatesOutput)

    def read_canaries(self, folder: RunFolder) -> list[str]:
        """Read the keys of the canaries that the store had when the guards looked."""
        found: list[str] = json.loads(folder.read_bytes(self.part(CANARIES)))
        return found


class ApproveOutput(output.ApproveOutput):
    """What a person was asked about a collection of an Icechunk repository, and said."""

    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)
    GUARDS, CANDIDATES = CheckLimitsOutput, ListCandidatesOutput
    COMMAND = "dredge icechunk"


class BulkDeleteOutput(StepOutput):
    """What became of each candidate."""

    STEP = ledger.STEP
    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)

    @property
    def settled(self) -> list[PartInfo]:
        """Rows of the ledger, one for each candidate; none in a dry run."""
        return self.parts("")

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Address, code and message of some objects that could not be deleted."""
        found: list[dict[str, Any]] = self.summary.details.get("failures", [])
        return found

    @property
    def deleted_objects(self) -> int:
        """Objects that the store confirmed as deleted; 0 in a dry run."""
        return self.counts.get("deleted_objects", 0)


class VerifyOutput(StepOutput):
    """That what was deleted is gone, and what is live is there."""

    STEP = "verify"
    INPUTS = (MarkOutput, CheckLimitsOutput, BulkDeleteOutput)


class StateOutput(StepOutput):
    """The state that the next run may build on."""

    STEP = "state"
    INPUTS = (*BulkDeleteOutput.INPUTS, BulkDeleteOutput, VerifyOutput)

    @property
    def version(self) -> Version:
        """The version of the state that was written."""
        return Version(**self.detail("version"))


REPORT = "report.json"
PAGE = "report.html"


class OwnFilesOutput(StepOutput):
    """What became of own files that nothing needs any more."""

    STEP = "own_files"


class SaveReportOutput(StepOutput):
    """How the run ended, and where its report lies."""

    STEP = "save_report"

    @property
    def outcome(self) -> str:
        """How the run ended: one of `report.OUTCOMES`."""
        found: str = self.detail("outcome")
        return found

    @property
    def page(self) -> str:
        """URI of the report as a page."""
        found: str = self.detail("page")
        return found
