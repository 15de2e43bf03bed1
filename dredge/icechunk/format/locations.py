"""Ids in the locations of virtual chunks.

The URL of a virtual chunk may lead into the repository itself:

    s3://lake/weather/chunks/1CECHNKREP0F1RSTCMT0     with any scheme, bucket alias or endpoint
    vcc://own/1CECHNKREP0F1RSTCMT0                    relative to a container of the repository's configuration

Ids are random, so a location is not resolved: every spelled id in it counts as the id of a file of this repository, of
any kind, also in another case, percent-encoded, or with tabs and line ends, which URL parsers remove. A false match
only keeps garbage. From spec 2 on the library may store locations as zstd frames with a dictionary of the manifest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import batched
from typing import Any
from urllib.parse import unquote_to_bytes

from dredge.errors import FormatError
from dredge.extras import need
from dredge.icechunk.ids import ALPHABET, ID_CHARS

LOCATION_BYTES_MAX = 1 << 16
_BATCH = 1 << 16
_ID = re.compile(f"(?<![0-9A-Z])[{ALPHABET}]{{{ID_CHARS - 1}}}[0G](?![0-9A-Z])".encode())


def ids_in(locations: Iterable[bytes | memoryview]) -> set[str]:
    """All spelled ids in some locations."""
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
