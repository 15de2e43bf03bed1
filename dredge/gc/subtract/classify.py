"""Describes objects that nothing live names: why each is garbage, and whether a branch may read it all the
same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.gc.namespaces import DATA
from dredge.gc.sets.files import write_hashes
from dredge.gc.sets.hashes import unite
from dredge.gc.sets.live import LocatedSet, in_any
from dredge.gc.sets.sharded import ShardedSet
from dredge.gc.slice_listing import LISTED
from dredge.gc.subtract import reasons
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Json

STEP = "subtract"
SIZE = "size"
SCHEMA = pa.schema(
    [
        *LISTED,
        pa.field("reason", pa.string(), nullable=False),
        pa.field("suspect", pa.string(), nullable=False),
    ]
)
"""`suspect` is "" (no branch can read it), `SIZE` (some entry of a branch head has its size, so that it may be
an identical copy which a branch reads) or `reasons.UNREADABLE` (size and time are not known, the columns say
nothing)."""

_SIGNED = r",[A-Za-z0-9_-]{43}$"


@dataclass(frozen=True, slots=True)
class Judge:
    """Tells reasons and suspects of rows that are not live.

    Attributes:
        folder: of the run.
        sizes: of the entries of branch heads, or more.
        expired: addresses that only ranges of expired commits name.
    """

    folder: RunFolder
    sizes: tuple[LocatedSet, ...]
    expired: ShardedSet

    @classmethod
    def of(cls, folder: RunFolder, config: Json) -> Judge:
        """Make one from a task's configuration: `sizes`, `expired`."""
        sizes = tuple(LocatedSet.from_json(value) for value in config["sizes"])
        return cls(folder, sizes, ShardedSet.from_json(config["expired"]))

    def describe(self, rows: pa.Table, unreadable: bool = False) -> pa.Table:
        """Describe rows of the listing's schema; gives rows of `SCHEMA`.

        Args:
            rows: not live.
            unreadable: nothing but the addresses is known.

        Raises:
            FormatError: a row that can be no candidate.
        """
        addresses = rows["address"]
        hashes = rows["hash"].to_numpy()
        strays = pc.invert(pc.starts_with(addresses, DATA))
        if pc.any(strays).as_py():
            stray = addresses.filter(strays)[0].as_py()
            raise FormatError(f"{stray!r} is not below {DATA} and can be no candidate. Nothing was deleted.")
        if not np.array_equal(hash64(addresses), hashes):
            raise FormatError(
                "hashes of the listing do not fit its addresses. Nothing was deleted. Start a new run."
            )
        signed = pc.match_substring_regex(addresses, _SIGNED).to_numpy()
        expired = self.expired.find(self.folder, [hashes])[0]
        why = np.where(expired, reasons.EXPIRED, np.where(signed, reasons.NEVER_LINKED, reasons.UNREFERENCED))
        if unreadable:
            suspects = np.full(rows.num_rows, reasons.UNREADABLE)
        else:
            # Checksums are not compared: a link or an import may claim any, a copy keeps what was claimed, and
            # the ETags of an encrypted store are not hashes of the content.
            (same_size,) = in_any(self.sizes, [rows["size"].to_numpy().astype(np.uint64)])
            suspects = np.where(same_size, SIZE, "")
        columns = [rows[name] for name in LISTED.names]
        columns += [pa.array(why, pa.string()), pa.array(suspects, pa.string())]
        return pa.Table.from_arrays(columns, schema=SCHEMA)


@dataclass(slots=True)
class Written:
    """Candidates that a task wrote.

    Attributes:
        parts: rows, and hashes of those that are not suspect.
        counts: figures.
        examples: a few addresses that are not suspect, by reason.
    """

    parts: list[PartInfo] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def to_json(self) -> Json:
        """As the result of a task: `parts`, `counts`, `examples`."""
        parts = [part.to_json() for part in self.parts]
        return {"parts": parts, "counts": dict(self.counts), "examples": self.examples}


def write_candidates(
    folder: RunFolder,
    judge: Judge,
    tables: Iterable[pa.Table],
    name: str,
    written: Written,
    unreadable: bool = False,
) -> None:
    """Describe rows that are not live and write them as candidates.

    Args:
        folder: of the run.
        judge: describes.
        tables: rows of the listing's schema; each becomes a file.
        name: of the files; the same task must always give the same.
        written: grows.
        unreadable: nothing but the addresses is known.
    """
    for index, table in enumerate(tables):
        rows = judge.describe(table, unreadable)
        plain = rows.filter(pc.equal(rows["suspect"], ""))
        _count(rows, plain, written)
        written.parts.append(folder.write_table(STEP, index, rows, f"part-{name}"))
        hashes = unite([plain["hash"].to_numpy()])
        written.parts.append(write_hashes(folder, f"{STEP}/hashes-{name}-{index:05d}.u64", hashes))


def _count(rows: pa.Table, plain: pa.Table, written: Written) -> None:
    counts = written.counts
    counts["objects"] += rows.num_rows
    counts["bytes"] += pc.sum(rows["size"]).as_py()
    suspects = rows.filter(pc.equal(rows["suspect"], SIZE))
    counts["suspects"] += suspects.num_rows
    counts["suspects_bytes"] += pc.sum(suspects["size"]).as_py() or 0
    counts["unreadable"] += rows.num_rows - plain.num_rows - suspects.num_rows
    for group in rows.group_by("reason").aggregate([("size", "count"), ("size", "sum")]).to_pylist():
        reason = group["reason"]
        counts[f"{reason}_objects"] += group["size_count"]
        counts[f"{reason}_bytes"] += group["size_sum"]
        found = written.examples.setdefault(reason, [])
        if len(found) < reasons.EXAMPLES:
            more = plain.filter(pc.equal(plain["reason"], reason))["address"]
            found.extend(more.slice(0, reasons.EXAMPLES - len(found)).to_pylist())
