"""A manifest: the location of each chunk of its arrays, as one array for each field of the references.

The URL of a virtual chunk may lead into the repository itself:

    s3://lake/weather/chunks/1CECHNKREP0F1RSTCMT0     with any scheme, bucket alias or endpoint
    vcc://own/1CECHNKREP0F1RSTCMT0                    relative to a container of the repository's configuration

Ids are random, so locations are not resolved: each id in a location counts as the id of a file of this repository, of
any kind, also in another case, percent-encoded, or with tabs and line ends, which URL parsers remove. A false match
only keeps garbage. From spec 2 on the library may store locations as zstd frames with a dictionary of the manifest.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import batched, chain
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from dredge.errors import FormatError
from dredge.icechunk.format import envelope
from dredge.icechunk.format.flatbuffer import Buffer, Table, Vector
from dredge.icechunk.format.kernels import loop_for
from dredge.icechunk.format.metadata import check_name
from dredge.icechunk.ids import ALPHABET, ID_BYTES, ID_CHARS, NODE_ID_BYTES, encode_id, hashes_of_names
from dredge.process import need
from dredge.sets.hashes import NONE, Hashes, unite

LOCATION_BYTES_MAX = 1 << 16
_BATCH = 1 << 16
_ID = re.compile(f"(?<![0-9A-Z])[{ALPHABET}]{{{ID_CHARS - 1}}}[0G](?![0-9A-Z])".encode())

DIMENSIONS_MAX = 256
NATIVE, INLINE, VIRTUAL = 0, 1, 2
"""Kinds of chunk references, as `kernels.walk_refs` writes them."""


def ids_in(locations: Iterable[bytes | memoryview]) -> set[str]:
    """Return all ids in some locations."""
    found: set[bytes] = set()
    for some in batched(locations, _BATCH):
        text = b"\0".join(some)
        for each in {text, text.translate(None, b"\t\r\n")}:
            for spelling in _spellings(each):
                found.update(_ID.findall(spelling))
    return {item.decode() for item in found}


def _spellings(text: bytes) -> Iterator[bytes]:
    while True:
        yield text.upper()
        decoded = unquote_to_bytes(text) if b"%" in text else text
        if decoded == text:
            return
        text = decoded


def unpack_locations(
    frames: Iterable[bytes | memoryview], dictionary: bytes, algorithm: int, name: str
) -> Iterator[bytes]:
    """Decompress locations."""
    need("zstandard", "icechunk")
    import zstandard

    if algorithm:
        raise FormatError(
            f"{name}: unknown compression {algorithm} of locations; only 0 (zstd) is known. Update Dredge."
        )
    try:
        loaded: Any = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        decompress = zstandard.ZstdDecompressor(dict_data=loaded).decompress
        for frame in frames:
            if zstandard.frame_content_size(frame) > LOCATION_BYTES_MAX:
                raise FormatError(f"{name}: a location is longer than {LOCATION_BYTES_MAX} bytes")
            yield decompress(frame, max_output_size=LOCATION_BYTES_MAX)
    except zstandard.ZstdError as error:
        raise FormatError(f"{name}: damaged location of a virtual chunk: {error}") from None


_DICTIONARY, _ALGORITHM = 2, 3
"""Slots of the manifest."""
_LOCATION, _PACKED = 5, 8
"""Slots of a chunk reference."""


class NamedChunks(NamedTuple):
    """The chunks of a manifest: the first 64 bits of their ids, sorted and distinct."""

    native: Hashes
    virtual: Hashes = NONE

    @property
    def all(self) -> Hashes:
        """The union of both sets."""
        return unite([*self]) if len(self.virtual) else self.native


class ArrayRefs(Struct, frozen=True, eq=False):
    """The chunk references of an array, in the file's order (by coordinate)."""

    node_id: str
    kind: npt.NDArray[np.uint8]
    ids: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.uint64]
    coords: npt.NDArray[np.uint32]
    places: npt.NDArray[np.int64]
    buffer: Buffer


class Manifest(Struct, frozen=True, eq=False):
    """A parsed manifest."""

    arrays: tuple[ArrayRefs, ...]

    @property
    def native_ids(self) -> npt.NDArray[np.uint8]:
        """Ids of the native chunks, a row of 12 bytes each, in the file's order."""
        none = np.empty((0, ID_BYTES), np.uint8)
        return np.concatenate([none, *(array.ids[array.kind == NATIVE] for array in self.arrays)])

    def virtual_ids(self, name: str) -> list[str]:
        """The ids in locations of virtual chunks, sorted."""
        if not self.arrays:
            return []
        buffer = self.arrays[0].buffer
        places = [place for array in self.arrays for place in array.places[array.kind == VIRTUAL].tolist()]
        tables = [buffer.table_at(place) for place in places]
        texts, frames = (
            [(found.start, found.count) for table in tables if (found := table.vector(slot, 1)) is not None]
            for slot in (_LOCATION, _PACKED)
        )
        return sorted(_ids_in(buffer, texts, frames, name))


def parse_manifest(
    data: bytes,
    name: str,
    *,
    limits: envelope.ReadLimits = envelope.READ_LIMITS,
    walk: Callable[..., int] | None = None,
) -> Manifest:
    """Read a manifest."""
    opened, buffer = _open(data, name, limits)
    views = envelope.views_of(opened)
    loop = walk or loop_for("walk_refs", opened.size)
    return Manifest(tuple(_array(buffer, views, *found, loop) for found in _arrays(buffer, limits)))


def named_chunks(
    data: bytes, name: str, *, refs: int | None = None, loop: Callable[..., int] | None = None
) -> NamedChunks:
    """Read the chunks of a manifest."""
    native, virtual = _named(data, name, refs, loop)
    hashes, _ = hashes_of_names(pa.array(sorted(virtual), pa.string()))
    return NamedChunks(unite([native]), unite([hashes]))


def ids_in_locations(data: bytes, name: str, *, refs: int | None = None) -> set[str]:
    """Read the ids in all locations of a manifest; checks the file as `named_chunks` does."""
    return _named(data, name, refs, None)[1]


def _named(
    data: bytes, name: str, refs: int | None, loop: Callable[..., int] | None
) -> tuple[Hashes, set[str]]:
    opened, buffer = _open(data, name, envelope.READ_LIMITS)
    views = envelope.views_of(opened)
    vectors = [vector for _, vector in _arrays(buffer, envelope.READ_LIMITS)]
    total = sum(vector.count for vector in vectors)
    if refs is not None and total != refs:
        raise FormatError(f"{name}: damaged: it has {total} chunk references, snapshots state {refs}")
    out = np.empty(total, dtype=np.uint64)
    texts, frames = np.empty((total, 2), np.uint32), np.empty((total, 2), np.uint32)
    filled = np.zeros(3, dtype=np.int64)
    run = loop or loop_for("native_hashes", opened.size)
    cover = envelope.account(opened, whole=False)[0]
    for vector in vectors:
        damaged = run(*views, vector.start, vector.count, out, texts, frames, filled, cover)
        if damaged >= 0:
            raise buffer.fail("damaged chunk reference", damaged)
    envelope.check_covered(opened, cover)
    native, plain, packed = filled.tolist()
    return out[:native], _ids_in(buffer, texts[:plain].tolist(), frames[:packed].tolist(), name)


def _ids_in(
    buffer: Buffer, texts: Sequence[Sequence[int]], frames: Sequence[Sequence[int]], name: str
) -> set[str]:
    if not texts and not frames:
        return set()
    root, view = buffer.root(), memoryview(buffer.data)
    for start, count in texts:
        if bytes(view[start + count : start + count + 1]) != b"\0":  # its length is damaged
            raise buffer.fail("location without a zero after it", start)
    plain = (view[start : start + count] for start, count in texts)
    packed = (view[start : start + count] for start, count in frames)
    dictionary, algorithm = root.bytes_of(_DICTIONARY), root.number(_ALGORITHM, 1)
    unpacked = unpack_locations(packed, dictionary, algorithm, name) if frames else ()
    return ids_in(chain(plain, unpacked))


def _open(data: bytes, name: str, limits: envelope.ReadLimits) -> tuple[envelope.Opened, Buffer]:
    opened = envelope.open_file(data, name, envelope.FileType.MANIFEST, limits)
    buffer = Buffer(opened.view, name)
    check_name(encode_id(buffer.root().required_inline(0, ID_BYTES, "id")), name)
    return opened, buffer


def _arrays(buffer: Buffer, limits: envelope.ReadLimits) -> Iterator[tuple[Table, Vector]]:
    for table in buffer.root().tables(1):
        refs = table.vector(1, 4)
        if refs is None:
            raise buffer.fail("array without a vector of references", table.place)
        if refs.count > limits.rows_max:
            raise buffer.fail(
                f"{refs.count} references, more than the limit of {limits.rows_max},", table.place
            )
        if refs.start & 3:
            raise buffer.fail("misaligned vector of references", refs.start)
        yield table, refs


def _array(
    buffer: Buffer, views: envelope.Views, table: Table, refs: Vector, walk: Callable[..., int]
) -> ArrayRefs:
    dimensions = 0
    if refs.count:
        index = buffer.table_at(buffer.follow(refs.start)).vector(0, 4)
        dimensions = index.count if index else 0
        if dimensions > DIMENSIONS_MAX:
            raise buffer.fail(f"chunk reference with {dimensions} dimensions", refs.start)
    found = ArrayRefs(
        node_id=encode_id(table.required_inline(0, NODE_ID_BYTES, "node id")),
        kind=np.zeros(refs.count, dtype=np.uint8),
        ids=np.zeros((refs.count, ID_BYTES), dtype=np.uint8),
        lengths=np.zeros(refs.count, dtype=np.uint64),
        coords=np.zeros((refs.count, dimensions), dtype=np.uint32),
        places=np.zeros(refs.count, dtype=np.int64),
        buffer=buffer,
    )
    damaged = walk(
        *views,
        refs.start,
        refs.count,
        dimensions,
        found.kind,
        found.ids,
        found.lengths,
        found.coords,
        found.places,
    )
    if damaged >= 0:
        raise buffer.fail("damaged chunk reference", damaged)
    return found
