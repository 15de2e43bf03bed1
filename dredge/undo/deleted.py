"""The deleted objects of a run: its candidates with their outcomes in the ledger, and the selection of a restore.

The raw ledger is read, including that of a killed sweep. A candidate without a row may have been deleted right before
the kill, so a restore includes it. A purge leaves such an object, and then the record of the run stays too.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from dredge.errors import FormatError
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.storage import ObjectWriter
from dredge.undo.ways import OFF, WORDS, RestoreConfig

_COLUMNS = ["address", "size", "etag", "hash", "reason"]
_STAYED = (ledger.KEPT, ledger.NOT_ADDRESSABLE)


class SweptRun(Struct, frozen=True):
    """A run with deletions."""

    way: str  # undo way of its plan
    folder: RunFolder
    candidates: list[PartInfo]
    below: tuple[str, ...]  # folders of the repository with its deletions, each with its slash


class Collected(Struct, frozen=True, kw_only=True):
    """A repository with collections."""

    repository: str
    uri: str
    state: ObjectWriter
    runs_uri: str
    # opens a run by the URI of its folder; raises ConfigError for no run, a run without deletions, or a run
    # of another repository, and FormatError for damaged files
    open_run: Callable[[str], SweptRun]
    # called with the id of a run right before it purges; raises RefusedError to stop it
    check: Callable[[str], None] = lambda _run_id: None

    def run_uri_of(self, run: str) -> str:
        """URI of a run's folder."""
        return run.rstrip("/") if "://" in run else f"{self.runs_uri}/{run}"


def swept_rows(folder: RunFolder, part: PartInfo, below: Sequence[str]) -> pa.Table:
    """The candidates of a part, without those known to have stayed. Returns rows with `address`, `size`, `etag` (null
    for an unlisted object), `hash`, `reason`; `outcome` (null without a ledger row), `version_id` (of the delete
    marker; null without one) and `done_by` (end of the deletion by the store's clock; null without a ledger row).
    Raises FormatError: an address outside the folders."""
    rows = folder.read_part(part, _COLUMNS)
    if any(not address.startswith(tuple(below)) for address in rows["address"].to_pylist()):
        raise FormatError(
            f"{part.name} of {folder.uri} has an object outside {', '.join(below)}. Nothing was changed."
        )
    raw, done_by = ledger.read_raw_with_time(folder, ledger.part_stem(part))
    found = ledger.best(raw)
    places = pc.index_in(rows["address"], found["address"].combine_chunks())
    for name in ("outcome", "version_id"):
        rows = rows.append_column(name, found[name].take(places))
    rows = rows.append_column("done_by", pa.array([done_by] * rows.num_rows, pa.timestamp("us", tz="UTC")))
    stayed = pc.is_in(rows["outcome"], pa.array(_STAYED))
    return rows.filter(pc.invert(stayed)).combine_chunks()


EXAMPLES = 20


class Choice(Struct, frozen=True):
    """The objects of a restore."""

    objects: int
    size_bytes: int
    reasons: dict[str, int]
    examples: list[str]
    way: str
    why_way: str

    @property
    def can_come_back(self) -> bool:
        """Whether the run kept its deleted objects; versions of the bucket may have more."""
        return self.way != OFF


def preview(config: RestoreConfig, swept: SweptRun) -> Choice:
    """Count the objects of a restore, from the run's folder alone; the restore itself looks for versions and copies."""
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
    """The prefix of the selected addresses."""
    return config.address or config.prefix or ""


def fitting(rows: pa.Table, prefix: str, is_address: bool, reason: str | None) -> pa.Table:
    """The selected rows."""
    addresses = rows["address"]
    fits = pc.equal(addresses, prefix) if is_address else pc.starts_with(addresses, prefix)
    if reason:
        fits = pc.and_(fits, pc.equal(rows["reason"], reason))
    return rows.filter(fits).combine_chunks()
