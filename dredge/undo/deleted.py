"""What a run deleted, and may have: its candidates with what its ledger says became of each.

The raw ledger is read, which also a sweep that was killed leaves. A candidate without a row may have been deleted right
before the kill, so a restore looks at it as well. A purge leaves it, and then the record of the run stays, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectWriter
from dredge.undo.config import RestoreConfig
from dredge.undo.ways import OFF, WORDS

_COLUMNS = ["address", "size", "etag", "hash", "reason"]
_STAYED = (ledger.KEPT, ledger.NOT_ADDRESSABLE)


@dataclass(frozen=True, slots=True)
class SweptRun:
    """A run that deleted.

    Attributes:
        way: how its plan lets deletions be taken back.
        folder: its folder; only read.
        candidates: what it might delete, in the order in which it comes back.
        below: folders of the repository in which it deletes, each with its slash.
    """

    way: str
    folder: RunFolder
    candidates: list[PartInfo]
    below: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A repository whose collections can be taken back.

    Attributes:
        repository: what people call it.
        uri: of what is collected.
        state: on the folder with lease and pins.
        runs_uri: folder with run folders.
        open_run: opens a run by the URI of its folder; raises ConfigError when there is none, it deleted nothing, or it
            is of another repository, and FormatError when its files are damaged.
        check: called with the id of a run right before it deletes for good; raises RefusedError if it must not.
    """

    repository: str
    uri: str
    state: ObjectWriter
    runs_uri: str
    open_run: Callable[[str], SweptRun]
    check: Callable[[str], None] = lambda _run_id: None

    def run_uri_of(self, run: str) -> str:
        """URI of a run's folder.

        Args:
            run: the URI, or the id of a run in the repository's own run root.
        """
        return run.rstrip("/") if "://" in run else f"{self.runs_uri}/{run}"


def swept_rows(folder: RunFolder, part: PartInfo, below: Sequence[str]) -> pa.Table:
    """The candidates of a part that are not known to have stayed.

    Args:
        folder: of the run that deleted.
        part: of its candidates.
        below: folders of the repository in which it deletes.

    Returns:
        Rows with `address`, `size`, `etag` (null where the run knew none), `hash`, `reason`; `outcome`
        (null where the ledger has nothing), `version_id` (of the delete marker; null where there is none, or none is
        known) and `done_by` (by the store's clock it had been deleted by then; null where the ledger has nothing).

    Raises:
        FormatError: one lies where no run deletes.
    """
    rows = folder.read_part(part, _COLUMNS)
    if any(not address.startswith(tuple(below)) for address in rows["address"].to_pylist()):
        raise FormatError(
            f"{part.name} of {folder.uri} names an object outside {', '.join(below)}. Nothing was done."
        )
    raw, done_by = ledger.read_raw_with_time(folder, ledger.stem_of(part))
    found = ledger.best(raw)
    places = pc.index_in(rows["address"], found["address"].combine_chunks())
    for name in ("outcome", "version_id"):
        rows = rows.append_column(name, found[name].take(places))
    rows = rows.append_column("done_by", pa.array([done_by] * rows.num_rows, pa.timestamp("us", tz="UTC")))
    stayed = pc.is_in(rows["outcome"], pa.array(_STAYED))
    return rows.filter(pc.invert(stayed)).combine_chunks()


EXAMPLES = 20


@dataclass(frozen=True, slots=True)
class Choice:
    """What a restore would bring back.

    Attributes:
        objects: how many.
        size_bytes: their sizes together.
        reasons: objects by the reason why they were deleted.
        examples: addresses of some.
        way: how: "versions", "quarantine" or "off".
        why_way: what that means, half a sentence.
    """

    objects: int
    size_bytes: int
    reasons: dict[str, int]
    examples: list[str]
    way: str
    why_way: str

    @property
    def can_come_back(self) -> bool:
        """Whether the run kept what it deleted; versions of the bucket may hold more than it knew."""
        return self.way != OFF


def preview(config: RestoreConfig, swept: SweptRun) -> Choice:
    """Say what a restore would bring back. Only reads, and only the run's folder: whether versions and copies are there
    still, the restore itself finds out.

    Args:
        config: which deletions.
        swept: the run that deleted.

    Raises:
        FormatError: its files are damaged.
    """
    objects = size_bytes = 0
    reasons, examples = Counter[str](), list[str]()
    for part in swept.candidates:
        rows = fitting(
            swept_rows(swept.folder, part, swept.below),
            prefix_of(config),
            config.address is not None,
            config.reason,
        )
        objects += rows.num_rows
        size_bytes += pc.sum(rows["size"]).as_py() or 0
        for item in pc.value_counts(rows["reason"]).to_pylist():
            reasons[item["values"]] += item["counts"]
        examples += rows["address"].slice(0, EXAMPLES - len(examples)).to_pylist()
    return Choice(objects, size_bytes, dict(reasons), examples, swept.way, WORDS[swept.way])


def prefix_of(config: RestoreConfig) -> str:
    """What the addresses begin with that are asked for."""
    return config.address or config.prefix or ""


def fitting(rows: pa.Table, prefix: str, is_address: bool, reason: str | None) -> pa.Table:
    """The rows that are asked for.

    Args:
        rows: as `swept_rows` gives them.
        prefix: of the addresses.
        is_address: whether the prefix is a whole address.
        reason: why they were deleted; "" and None for any.
    """
    addresses = rows["address"]
    fits = pc.equal(addresses, prefix) if is_address else pc.starts_with(addresses, prefix)
    if reason:
        fits = pc.and_(fits, pc.equal(rows["reason"], reason))
    return rows.filter(fits).combine_chunks()
