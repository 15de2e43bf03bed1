"""Describes objects that nothing live names: why each is garbage, and whether its content makes it suspect."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError
from dredge.gc import reasons
from dredge.gc.decoding import ODD_ETAG
from dredge.gc.hashes import Hashes, unite, write_hashes
from dredge.gc.listing import SCHEMA as LISTED
from dredge.gc.live import LocatedSet, in_any
from dredge.gc.lookup import ShardedSet
from dredge.gc.slices import DATA
from dredge.hashing import content_hash, hash64
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Json
from dredge.storage import ObjectReader, open_reader
from dredge.storage.parallel import ordered_map

STEP = "candidates"
SCHEMA = pa.schema(
    [
        *LISTED,
        pa.field("reason", pa.string(), nullable=False),
        pa.field("suspect", pa.string(), nullable=False),
        pa.field("content", pa.uint64(), nullable=False),
    ]
)
"""`suspect` is "" (nothing like it in any head), "content" (`content` is in some head) or "size" (only that
is known)."""

_SIGNED = r",[A-Za-z0-9_-]{43}$"
_MD5_BYTES_MAX = 64 << 20
_WHOLE_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Judge:
    """Tells reasons and suspects of rows that are not live.

    Attributes:
        folder: of the run.
        reader: on the storage namespace.
        heads: contents of branch heads, or more.
        sizes: sizes of their entries, or more.
        expired: addresses that only ranges of expired commits name.
        comparable: ETags of the store are hashes of the content.
        threads: objects read at once.
    """

    folder: RunFolder
    reader: ObjectReader
    heads: tuple[LocatedSet, ...]
    sizes: tuple[LocatedSet, ...]
    expired: ShardedSet
    comparable: bool
    threads: int

    @classmethod
    def of(cls, folder: RunFolder, config: Json) -> Judge:
        """Make one from a task's configuration: `namespace`, `heads`, `sizes`, `expired`, `comparable`,
        `threads`."""
        return cls(
            folder,
            open_reader(config["namespace"]),
            tuple(LocatedSet.from_json(value) for value in config["heads"]),
            tuple(LocatedSet.from_json(value) for value in config["sizes"]),
            ShardedSet.from_json(config["expired"]),
            config["comparable"],
            config["threads"],
        )

    def describe(self, rows: pa.Table) -> pa.Table:
        """Describe rows of the listing's schema; gives rows of `SCHEMA`.

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
        suspects, contents = self._suspects(rows, signed)
        columns = [rows[name] for name in LISTED.names]
        columns += [pa.array(why, pa.string()), pa.array(suspects, pa.string()), pa.array(contents)]
        return pa.Table.from_arrays(columns, schema=SCHEMA)

    def _suspects(self, rows: pa.Table, signed: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.str_], Hashes]:
        sizes = rows["size"].to_numpy()
        plain = sizes.astype(np.uint64)
        etags = pc.fill_null(rows["etag"], "")
        contents = content_hash(sizes, etags)
        same_size, odd_size = in_any(self.sizes, [plain, plain | ODD_ETAG])
        # Some entry of that size has a checksum that is no MD5, or the uploader of a linked object claimed
        # any: then only the size says something.
        by_size = odd_size | (signed & same_size)
        # Where the store's ETag is the MD5 of the content, as on S3 but for multipart and encrypted objects,
        # it tells. Elsewhere the bytes themselves are read, but only of objects that are as long as some
        # entry.
        whole = pc.match_substring_regex(etags, "^[0-9a-f]{32}$").to_numpy()
        unsure = np.flatnonzero(same_size & ~by_size & ~(whole & self.comparable))
        objects = list(zip(rows["address"].take(unsure).to_pylist(), sizes[unsure].tolist(), strict=True))
        for place, found in zip(unsure, ordered_map(self._md5, objects, self.threads), strict=True):
            if found is None:
                by_size[place] = True
            else:
                contents[place] = content_hash(sizes[place : place + 1], pa.array([found]))[0]
        (same_content,) = in_any(self.heads, [contents])
        return np.where(by_size, "size", np.where(same_content, "content", "")), contents

    def _md5(self, found: tuple[str, int]) -> str | None:
        """MD5 of the bytes of an object of that size; None when it is too long to be read for this."""
        address, size = found
        if size > _MD5_BYTES_MAX:
            return None
        digest = hashlib.md5(usedforsecurity=False)
        try:
            if size <= _WHOLE_BYTES_MAX:
                digest.update(self.reader.get(address))
            else:
                with self.reader.open_read(address) as stream:
                    for chunk in stream:
                        digest.update(chunk)
        except NotFoundError:
            return ""  # gone meanwhile: there is nothing to delete
        return digest.hexdigest()


def write_candidates(
    folder: RunFolder, judge: Judge, tables: Iterable[pa.Table], name: str
) -> tuple[list[PartInfo], Counter[str]]:
    """Describe rows that are not live and write them as candidates.

    Args:
        folder: of the run.
        judge: describes.
        tables: rows of the listing's schema; each becomes a file.
        name: of the task.

    Returns:
        The files (rows, and hashes of those that are not suspect), and figures.
    """
    counts: Counter[str] = Counter()
    written: list[PartInfo] = []
    for index, table in enumerate(tables):
        rows = judge.describe(table)
        _count(rows, counts)
        written.append(folder.write_table(STEP, index, rows, f"part-{name}"))
        plain = rows.filter(pc.equal(rows["suspect"], ""))["hash"].to_numpy()
        written.append(write_hashes(folder, f"{STEP}/hashes-{name}-{index:05d}.u64", unite([plain])))
    return written, counts


def _count(rows: pa.Table, counts: Counter[str]) -> None:
    counts["objects"] += rows.num_rows
    counts["bytes"] += pc.sum(rows["size"]).as_py()
    suspects = rows.filter(pc.not_equal(rows["suspect"], ""))
    counts["suspects"] += suspects.num_rows
    counts["suspects_bytes"] += pc.sum(suspects["size"]).as_py() or 0
    for group in rows.group_by("reason").aggregate([("size", "count"), ("size", "sum")]).to_pylist():
        counts[f"{group['reason']}_objects"] += group["size_count"]
        counts[f"{group['reason']}_bytes"] += group["size_sum"]
