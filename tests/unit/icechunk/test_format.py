"""Decoded files, locations and ids equal those of the library."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dredge.errors import FormatError
from dredge.icechunk.format import kernels
from dredge.icechunk.format.envelope import (
    HEADER_BYTES,
    FileType,
    ReadLimits,
    close_file,
    decoded_bytes_bound,
    open_file,
)
from dredge.icechunk.format.manifests import (
    INLINE,
    LOCATION_BYTES_MAX,
    NATIVE,
    VIRTUAL,
    ids_in,
    named_chunks,
    parse_manifest,
    unpack_locations,
)
from dredge.icechunk.format.metadata import (
    live_refs,
    micros,
    parse_ref,
    parse_repo_info,
    parse_snapshot,
    with_parent,
)
from dredge.icechunk.ids import decode_id, encode_id, encode_ids, hash_of, hashes_of, hashes_of_names, is_id
from tests.support.icechunk import ROOT_ID, local_storage, quiet

PARSERS = {
    "snapshots": lambda data, name: parse_snapshot(data, name, nodes=True),
    "manifests": parse_manifest,
    "repo": parse_repo_info,
}


@pytest.fixture(scope="module", params=[1, 2], ids=["v1", "v2"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    import zarr

    icechunk = quiet()
    folder = tmp_path_factory.mktemp("lake")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "data.bin").write_bytes(bytes(64))
    container = f"file://{folder}/elsewhere/"
    config = icechunk.RepositoryConfig.default()
    config.inline_chunk_threshold_bytes = 16
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(container, icechunk.local_filesystem_store(f"{folder}/elsewhere"))
    )
    repo = icechunk.Repository.create(
        local_storage(folder / "repo"), config=config, spec_version=request.param
    )
    session = repo.writable_session("main")
    group = zarr.group(session.store)
    group.create_array("grid", shape=(20, 30), chunks=(2, 3), dtype="i8", compressors=None)[:] = 7
    group.create_array("deep/small", shape=(4,), chunks=(1,), dtype="i8", compressors=None)[:] = 1
    group.create_array("away", shape=(2, 2, 2), chunks=(1, 2, 2), dtype="i8", compressors=None)
    session.store.set_virtual_ref("away/c/0/0/0", container + "data.bin", offset=32, length=32)
    session.commit("first", metadata={"who": "me", "n": 3})
    repo.create_tag("v1", repo.lookup_branch("main"))
    session = repo.writable_session("main")
    zarr.open_group(session.store)["grid"][0, 0] = 9
    session.commit("second")
    repo.create_branch("side", repo.lookup_tag("v1"))
    repo.delete_branch("side")
    return folder / "repo", repo


def files(folder: Path, kind: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted((folder / kind).iterdir()):
        yield f"{kind}/{path.name}", path.read_bytes()


def test_snapshots_decode_to_what_the_library_says(lake: tuple[Path, Any]) -> None:
    folder, repo = lake
    seen = {}
    for name, data in files(folder, "snapshots"):
        snapshot = parse_snapshot(data, name, nodes=True)
        seen[snapshot.id] = snapshot
        said = repo.inspect_snapshot(snapshot.id)
        assert snapshot.message == said["commit_message"]
        assert [node.path for node in snapshot.nodes] == [node["path"] for node in said["nodes"]]
        listed = {
            info.id: (info.size_bytes, info.num_chunk_refs) for info in repo.list_manifest_files(snapshot.id)
        }
        assert {info.id: (info.size_bytes, info.refs) for info in snapshot.manifests} == listed
        for info in snapshot.manifests:
            assert (folder / "manifests" / info.id).stat().st_size == info.size_bytes
    for info in repo.ancestry(branch="main"):
        assert seen[info.id].flushed_at == micros(info.written_at)
        if repo.spec_version == 1:
            assert seen[info.id].parent_id == info.parent_id
        else:
            assert seen[info.id].parent_id is None


def test_manifests_decode_to_arrays_of_native_inline_and_virtual_chunks(lake: tuple[Path, Any]) -> None:
    folder, repo = lake
    on_disk = {path.name for path in (folder / "chunks").iterdir()}
    kinds = set()
    native: set[str] = set()
    for name, data in files(folder, "manifests"):
        manifest = parse_manifest(data, name)
        said = repo.inspect_manifest(name.removeprefix("manifests/"))
        assert sum(len(array.kind) for array in manifest.arrays) == said["total_chunk_refs"]
        for array in manifest.arrays:
            kinds |= set(array.kind.tolist())
            native |= set(encode_ids(array.ids[array.kind == NATIVE]).to_pylist())
            assert sorted(map(tuple, array.coords.tolist())) == [tuple(row) for row in array.coords.tolist()]
            for kind, length in ((VIRTUAL, 32), (INLINE, 8), (NATIVE, 48)):
                assert {*array.lengths[array.kind == kind].tolist()} <= {length}
    assert kinds == {NATIVE, INLINE, VIRTUAL}
    assert native == on_disk


def test_fast_path_finds_exactly_the_native_chunks(lake: tuple[Path, Any]) -> None:
    for name, data in files(lake[0], "manifests"):
        arrays = parse_manifest(data, name).arrays
        expected = np.unique(np.concatenate([hashes_of(array.ids[array.kind == NATIVE]) for array in arrays]))
        assert named_chunks(data, name).native.tolist() == expected.tolist()


def test_compiled_loops_equal_the_same_loops_in_python(lake: tuple[Path, Any]) -> None:
    for name, data in files(lake[0], "manifests"):
        fast, slow = parse_manifest(data, name), parse_manifest(data, name, walk=kernels.walk_refs)
        for one, two in zip(fast.arrays, slow.arrays, strict=True):
            for column in ("kind", "ids", "lengths", "coords", "places"):
                assert (getattr(one, column) == getattr(two, column)).all()
        slow_hashes = named_chunks(data, name, loop=kernels.native_hashes)
        assert all(map(np.array_equal, named_chunks(data, name), slow_hashes))


def test_repo_info_and_refs_decode_to_what_the_library_says(lake: tuple[Path, Any]) -> None:
    folder, repo = lake
    if repo.spec_version == 1:
        keys = [str(path.relative_to(folder)) for path in (folder / "refs").rglob("*") if path.is_file()]
        tips = {ref: parse_ref((folder / key).read_bytes(), key) for ref, key in live_refs(keys).items()}
        assert tips == {("branch", "main"): repo.lookup_branch("main"), ("tag", "v1"): repo.lookup_tag("v1")}
        return
    info = parse_repo_info((folder / "repo").read_bytes())
    assert info.branches == {"main": repo.lookup_branch("main")}
    assert info.tags == {"v1": repo.lookup_tag("v1")}
    assert info.availability == "online"
    assert [update.kind for update in info.updates][:2] == ["branch deleted", "branch created"]
    parents = {entry.id: entry.parent_id for entry in info.snapshots}
    for said in repo.ancestry(branch="main"):
        assert parents[said.id] == said.parent_id
    for update in info.updates[1:]:
        assert update.backup is not None
        parse_repo_info((folder / "overwritten" / update.backup).read_bytes(), update.backup)


def samples(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    for kind in ("snapshots", "manifests"):
        name, data = max(files(folder, kind), key=lambda pair: len(pair[1]))
        yield kind, name, data
    if (folder / "repo").exists():
        yield "repo", "repo", (folder / "repo").read_bytes()


def test_truncated_files_are_refused_at_every_length(lake: tuple[Path, Any]) -> None:
    for kind, name, data in samples(lake[0]):
        for length in [*range(60), *range(60, len(data), 7), len(data) - 1]:
            with pytest.raises(FormatError, match=name.split("/")[-1]):
                PARSERS[kind](data[:length], name)


def test_damaged_bodies_are_refused_or_read_but_never_crash(lake: tuple[Path, Any]) -> None:
    rng = random.Random(11)
    refused = 0
    for kind, name, data in samples(lake[0]):
        opened = open_file(data, name, FileType(data[37]))
        for _ in range(150):
            body = bytearray(opened.body)
            for _ in range(rng.choice([1, 1, 4])):
                body[rng.randrange(len(body))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            try:
                damaged = close_file(opened.header, bytes(body))
                PARSERS[kind](damaged, name)
                if kind == "manifests":
                    named_chunks(damaged, name)
            except FormatError:
                refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, 0, "wrong magic"),
        (36, 3, "unknown spec version 3"),
        (37, 2, "manifest.* snapshot"),
        (37, 9, "unknown file type 9"),
        (38, 0, "unknown compression 0"),
        (39, 0, "no zstd frame"),
    ],
)
def test_wrong_headers_are_named(lake: tuple[Path, Any], at: int, value: int, message: str) -> None:
    name, data = next(files(lake[0], "snapshots"))
    wrong = bytearray(data)
    wrong[at] = value
    with pytest.raises(FormatError, match=message):
        parse_snapshot(bytes(wrong), name)


def test_file_under_another_objects_name_is_refused(lake: tuple[Path, Any]) -> None:
    (_, first), (second, _) = list(files(lake[0], "snapshots"))[:2]
    with pytest.raises(FormatError):
        parse_snapshot(first, second)


def test_bytes_after_the_frame_are_refused(lake: tuple[Path, Any]) -> None:
    name, data = next(files(lake[0], "snapshots"))
    with pytest.raises(FormatError, match="1 bytes"):
        parse_snapshot(data + b"x", name)


def test_frames_without_a_declared_size_are_read(lake: tuple[Path, Any]) -> None:
    # Releases before 2.3 write such frames.
    import cramjam

    for kind, name, data in samples(lake[0]):
        opened = open_file(data, name, FileType(data[37]))
        stream = cramjam.zstd.Compressor(3)
        stream.compress(opened.body)
        undeclared = opened.header + bytes(stream.finish())
        assert open_file(undeclared, name, FileType(data[37])).body == opened.body
        PARSERS[kind](undeclared, name)


def test_small_file_that_claims_gigabytes_is_refused_unread(lake: tuple[Path, Any]) -> None:
    name, data = next(files(lake[0], "snapshots"))
    repeated = ((128 * 1024) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    frame = bytes.fromhex("28b52ffd") + bytes([0x00, 0x58]) + repeated * 40_000 + (1).to_bytes(3, "little")
    assert decoded_bytes_bound(frame, 0, "bomb") == 40_000 * 128 * 1024
    with pytest.raises(FormatError, match="up to 5242880000"):
        parse_snapshot(data[:HEADER_BYTES] + frame, name)


def test_limits_refuse_big_files_and_long_vectors(lake: tuple[Path, Any]) -> None:
    name, data = max(files(lake[0], "manifests"), key=lambda pair: len(pair[1]))
    with pytest.raises(FormatError):
        parse_manifest(data, name, limits=ReadLimits(file_bytes_max=100))
    with pytest.raises(FormatError):
        parse_manifest(data, name, limits=ReadLimits(body_bytes_max=1000))
    with pytest.raises(FormatError):
        parse_manifest(data, name, limits=ReadLimits(rows_max=3))


def test_in_place_edit_changes_only_the_parent(lake: tuple[Path, Any]) -> None:
    folder, repo = lake
    snapshot = repo.lookup_branch("main")
    name = f"snapshots/{snapshot}"
    data = (folder / name).read_bytes()
    if repo.spec_version == 2:
        with pytest.raises(FormatError):
            with_parent(data, name, ROOT_ID)
        return
    before, edited = parse_snapshot(data, name, nodes=True), with_parent(data, name, ROOT_ID)
    assert edited[:HEADER_BYTES] == data[:HEADER_BYTES]
    assert parse_snapshot(edited, name, nodes=True) == replace(before, parent_id=ROOT_ID)
    root = f"snapshots/{ROOT_ID}"
    with pytest.raises(ValueError, match="never edited"):
        with_parent((folder / root).read_bytes(), root, snapshot)


def test_refs_files_are_strict() -> None:
    ok = b'{"snapshot":"1CECHNKREP0F1RSTCMT0"}'
    assert parse_ref(ok, "refs/branch.main/ref.json") == ROOT_ID
    for wrong in (b"", b"[]", b'{"snapshot":1}', b'{"snapshot":"short"}', b"{" * 5000):
        with pytest.raises(FormatError, match=r"ref\.json"):
            parse_ref(wrong, "refs/branch.main/ref.json")
    keys = [
        "refs/tag.a/ref.json",
        "refs/tag.a/ref.json.deleted",
        "refs/tag.b.c/ref.json",
        "refs/branch.main/ref.json",
        "refs/branch.new/ref.json#1",  # on disk, the library writes under this name and renames
        "refs/tag.b.c/ref.json.deleted#12",
    ]
    assert set(live_refs(keys)) == {("tag", "b.c"), ("branch", "main")}
    with pytest.raises(FormatError):
        live_refs(["refs/branch.main/ZZZZZZZZ.json"])


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


RAW = [random.Random(7).randbytes(12) for _ in range(500)] + [bytes(12), b"\xff" * 12]


def test_ids_round_trip_and_end_with_0_or_g() -> None:
    for raw in RAW:
        text = encode_id(raw)
        assert decode_id(text) == raw
        assert len(text) == 20
        assert text[-1] in "0G"
    assert encode_id(decode_id(ROOT_ID)) == ROOT_ID
    assert len(encode_id(b"12345678")) == 13


@pytest.mark.parametrize(
    "text", ["", "README.txt", "0" * 19 + "1", "1cechnkrep0f1rstcmt0", "O" * 20, "0" * 21, "é" * 20]
)
def test_other_spellings_are_no_ids(text: str) -> None:
    assert not is_id(text)
    with pytest.raises(FormatError):
        decode_id(text)
    _, right = hashes_of_names(pa.array([text]))
    assert not right[0]


def test_bulk_spelling_and_hashes_equal_the_slow_ones() -> None:
    raw = np.frombuffer(b"".join(RAW), dtype=np.uint8).reshape(-1, 12)
    names = encode_ids(raw)
    assert names.to_pylist() == [encode_id(one) for one in RAW]
    expected = [hash_of(name) for name in names.to_pylist()]
    assert hashes_of(raw).tolist() == expected
    mixed = pa.chunked_array([pa.array(["README.txt", None]), names.slice(3), pa.array(["0" * 19 + "1"])])
    hashes, right = hashes_of_names(mixed)
    assert right.tolist() == [False, False] + [True] * (len(RAW) - 3) + [False]
    assert hashes[right].tolist() == expected[3:]


def test_no_names_give_no_hashes() -> None:
    hashes, right = hashes_of_names(pa.array([], pa.string()))
    assert len(hashes) == len(right) == 0
