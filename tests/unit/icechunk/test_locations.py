"""Ids of files in the locations of virtual chunks, however a location is spelled."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.errors import FormatError
from dredge.icechunk.format.manifests import LOCATION_BYTES_MAX, ids_in, unpack_locations
from dredge.icechunk.ids import encode_id

ID = "1CECHNKREP0F1RSTCMT0"
IDS = st.binary(min_size=12, max_size=12).map(encode_id)
BEFORE = st.sampled_from(
    [
        "s3://lake/weather/chunks/",
        "s3a://alias/weather//chunks//",
        "s3://lake/weather/manifests/./",
        "s3://lake/weather/overwritten/repo.30731740284083.",
        "gs://lake/chunks/",
        "az://account/container/chunks/",
        "abfss://container@account.dfs.core.windows.net/x/chunks/",
        "https://lake.s3.amazonaws.com/weather/chunks/",
        "file:///lake/weather/../weather/chunks/",
        "/lake/weather/chunks/",
        "vcc://own/",
        "vcc://own/chunks/",
    ]
)
AFTER = st.sampled_from(["", "?versionId=7", "#x", "/", "\0"])


def encoded(text: str, every: int) -> str:
    return "".join(f"%{ord(char):02x}" if row % every == 0 else char for row, char in enumerate(text))


@given(st.lists(st.tuples(BEFORE, IDS, AFTER)), st.sampled_from([1, 2, 7, 1000]), st.integers(0, 2))
def test_every_spelling_of_a_files_place_names_it(
    places: list[tuple[str, str, str]], every: int, times: int
) -> None:
    locations = [before + encoded(found, every) + after for before, found, after in places]
    for _ in range(times):
        locations = [quote(location) for location in locations]
    named = ids_in([location.encode() for location in locations])
    assert named == {found for _, found, _ in places}


@pytest.mark.parametrize("between", ["\t", "\n", "\r", "\r\n\t"])
def test_what_parsers_of_urls_take_out_hides_no_id(between: str) -> None:
    assert ids_in([f"vcc://own/{ID[:7]}{between}{ID[7:]}".encode()]) == {ID}
    assert ids_in([f"vcc://own/x{between}%31{ID[1:]}".encode()]) == {ID}


def test_lower_case_names_the_chunk_too() -> None:
    assert ids_in([f"file:///d/chunks/{ID.lower()}".encode()]) == {ID}


@pytest.mark.parametrize(
    "name", ["data.bin", ID[:-1], ID + "0", "x" + ID, ID[:-1] + "1", "I" + ID[1:], "%zz", "%", ""]
)
def test_other_names_are_no_ids(name: str) -> None:
    assert ids_in([f"s3://lake/archive/{name}".encode()]) == set()


def test_ids_are_not_read_over_the_bounds_of_two_locations() -> None:
    assert ids_in([b"s3://lake/" + ID[:10].encode(), ID[10:].encode()]) == set()


def frames(*locations: bytes, dictionary: bytes = b"") -> list[bytes]:
    import zstandard

    loaded = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
    compress = zstandard.ZstdCompressor(dict_data=loaded).compress
    return [compress(location) for location in locations]


@given(st.lists(st.binary(max_size=300)), st.sampled_from([b"", b"s3://lake/weather/chunks/" * 4]))
def test_compressed_locations_come_back(locations: list[bytes], dictionary: bytes) -> None:
    packed = frames(*locations, dictionary=dictionary)
    assert list(unpack_locations(packed, dictionary, 0, "m")) == locations


@pytest.mark.parametrize(
    ("packed", "algorithm"),
    [
        (frames(b"s3://lake/x"), 1),
        ([b""], 0),
        ([b"no frame"], 0),
        ([frames(b"s3://lake/x" * 9)[0][:-3]], 0),
        (frames(b"x" * (LOCATION_BYTES_MAX + 1)), 0),
    ],
    ids=["algorithm", "empty", "no frame", "torn", "long"],
)
def test_location_that_cannot_be_read_is_damage(packed: list[bytes], algorithm: int) -> None:
    with pytest.raises(FormatError):
        list(unpack_locations(packed, b"", algorithm, "m"))
