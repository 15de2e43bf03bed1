"""Damaged files are refused, or keep all their references."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dredge.errors import FormatError
from dredge.icechunk.format import kernels
from dredge.icechunk.format.envelope import FileType, Opened, account, check_covered, close_file, open_file
from dredge.icechunk.format.manifests import named_chunks, parse_manifest
from dredge.icechunk.format.metadata import instant, parse_parentage, parse_repo_info, parse_snapshot
from dredge.icechunk.ids import decode_id
from tests.support.depth import depth
from tests.support.icechunk import local_storage, quiet

type Named = dict[str, set[Any]]

EVERY = depth(3, 1)
"""Of the bits, every third is flipped: each place of a byte, and some bits of each number. The long run takes all."""


@pytest.fixture(scope="module", params=[1, 2], ids=["v1", "v2"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    import zarr

    icechunk = quiet()
    folder = tmp_path_factory.mktemp("lake")
    (folder / "away").mkdir()
    (folder / "away" / "data").write_bytes(bytes(64))
    container = f"file://{folder}/away/"
    config = icechunk.RepositoryConfig.default()
    config.inline_chunk_threshold_bytes = 16
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(container, icechunk.local_filesystem_store(f"{folder}/away"))
    )
    repo = icechunk.Repository.create(
        local_storage(folder / "repo"), config=config, spec_version=request.param
    )
    session = repo.writable_session("main")
    group = zarr.group(session.store)
    group.create_array("grid", shape=(6, 6), chunks=(2, 3), dtype="i8", compressors=None)[:] = 7
    group.create_array("deep/small", shape=(4,), chunks=(1,), dtype="i8", compressors=None)[:] = 1
    group.create_array("away", shape=(2, 2), chunks=(1, 2), dtype="i8", compressors=None)
    session.store.set_virtual_ref("away/c/0/0", container + "data", offset=32, length=16)
    session.commit("first", metadata={"who": "me"})
    repo.create_tag("v1", repo.lookup_branch("main"))
    for number in (2, 3):
        session = repo.writable_session("main")
        zarr.open_group(session.store)["grid"][number, :] = number
        session.commit(f"commit {number}")
    repo.create_branch("side", repo.lookup_tag("v1"))
    if request.param == 2:
        info = parse_repo_info((folder / "repo" / "repo").read_bytes())
        repo.delete_tag("v1")
        repo.delete_branch("side")
        repo.expire_snapshots(instant(max(entry.flushed_at for entry in info.snapshots)))
    return folder / "repo"


def snapshot(data: bytes, name: str) -> Named:
    found = parse_snapshot(data, name)
    assert parse_parentage(data, name)[:2] == (found.id, found.parent_id)
    parents = set() if found.parent_id is None else {found.parent_id}
    return {"snapshots": parents, "manifests": {info.id for info in found.manifests}}


def manifest(data: bytes, name: str) -> Named:
    return {"chunks": set(named_chunks(data, name).native.tolist())}


def repo_info(data: bytes, name: str) -> Named:
    entries = parse_repo_info(data, name).snapshots
    return {
        "snapshots": {entry.id for entry in entries},
        "transactions": {log for entry in entries for log in entry.pruned},
    }


READERS = {"snapshots": snapshot, "manifests": manifest, "repo": repo_info}


def files(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    for kind in ("snapshots", "manifests"):
        for path in sorted((folder / kind).iterdir()):
            yield kind, f"{kind}/{path.name}", path.read_bytes()
    if (folder / "repo").exists():
        yield "repo", "repo", (folder / "repo").read_bytes()


def what_became_of(kind: str, name: str, data: bytes, true: Named, stored: Named) -> str:
    try:
        said = READERS[kind](data, name)
    except FormatError:
        return "refused"
    if all(said[what] >= true[what] for what in true):
        return "harmless"
    # Everything of a kind that is lost must show itself: something of that kind is named that is not there.
    lost = [what for what in true if not said[what] >= true[what]]
    return "absent" if all(said[what] - stored[what] for what in lost) else "lost"


def stored_in(folder: Path) -> Named:
    found: Named = {kind: {path.name for path in (folder / kind).iterdir()} for kind in ("snapshots",)}
    found |= {
        kind: {path.name for path in (folder / kind).iterdir()} for kind in ("manifests", "transactions")
    }
    chunks = (path.name for path in (folder / "chunks").iterdir())
    return found | {"chunks": {int.from_bytes(decode_id(name)[:8], "big") for name in chunks}}


@pytest.mark.hunt
def test_no_flipped_bit_of_a_stored_file_makes_it_say_less_unnoticed(lake: Path) -> None:
    stored = stored_in(lake)
    outcomes: Counter[str] = Counter()
    for kind, name, data in files(lake):
        true = READERS[kind](data, name)
        for bit in range(0, len(data) * 8, EVERY):
            damaged = bytearray(data)
            damaged[bit >> 3] ^= 1 << (bit & 7)
            outcome = what_became_of(kind, name, bytes(damaged), true, stored)
            assert outcome != "lost", f"{name}: bit {bit}"
            outcomes[outcome] += 1
    assert outcomes["refused"] > 10_000 // EVERY


@pytest.mark.hunt
def test_no_flipped_bit_of_a_decoded_body_makes_it_say_less_unnoticed(lake: Path) -> None:
    # Compression hides some places from the flips above: here bits of what is read are turned.
    rng = random.Random(3)
    stored = stored_in(lake)
    for kind, name, data in files(lake):
        true = READERS[kind](data, name)
        opened = open_file(data, name, FileType(data[37]))
        for bit in sorted(rng.sample(range(opened.size * 8), opened.size * 2 // EVERY)):
            body = bytearray(opened.body)
            body[bit >> 3] ^= 1 << (bit & 7)
            damaged = close_file(opened.header, bytes(body))
            assert what_became_of(kind, name, damaged, true, stored) != "lost", f"{name}: bit {bit}"


def test_list_of_manifests_that_lacks_one_that_a_node_uses_is_refused(lake: Path) -> None:
    for kind, name, data in files(lake):
        if kind != "snapshots":
            continue
        opened = open_file(data, name, FileType.SNAPSHOT)
        for info in parse_snapshot(data, name).manifests:
            raw = decode_id(info.id)
            places = [at for at in range(opened.size) if opened.body[at : at + 12] == raw]
            assert len(places) >= 2  # in the list, and in the node of each array that it serves
            for at in places:
                body = bytearray(opened.body)
                body[at] ^= 1
                with pytest.raises(FormatError):
                    parse_snapshot(close_file(opened.header, bytes(body)), name)


def test_fields_that_this_reader_does_not_know_are_refused(lake: Path) -> None:
    # A newer library may name live objects there.
    for kind, name, data in files(lake):
        opened = open_file(data, name, FileType(data[37]))
        body = bytearray(opened.body)
        root = int.from_bytes(body[:4], "little")
        vtable = root - int.from_bytes(body[root : root + 4], "little", signed=True)
        length = int.from_bytes(body[vtable : vtable + 2], "little")
        grown = 4 + 2 * 14  # a slot more than any root has
        added = bytes(body[vtable : vtable + length]).ljust(grown - 2, b"\0") + (4).to_bytes(2, "little")
        body += bytes(-len(body) % 4)
        place = len(body)
        body += grown.to_bytes(2, "little") + added[2:]
        body[root : root + 4] = (root - place).to_bytes(4, "little", signed=True)
        body[vtable : vtable + length] = bytes(length)
        with pytest.raises(FormatError, match="newer format"):
            READERS[kind](close_file(opened.header, bytes(body)), name)


def test_loops_that_account_for_a_body_do_the_same_compiled_and_in_python(lake: Path) -> None:
    for kind, name, data in files(lake):
        opened = open_file(data, name, FileType(data[37]))
        whole = kind != "manifests"
        uses = kind == "snapshots"
        fast, fast_uses = account(opened, whole=whole, uses=uses)
        slow, slow_uses = account(opened, whole=whole, uses=uses, run=kernels.account)
        assert (fast == slow).all()
        assert fast_uses.tolist() == slow_uses.tolist()
        if not whole:
            with pytest.raises(FormatError):
                check_covered(opened, slow, run=kernels.uncovered)
        check_covered(opened, np.ones_like(slow), run=kernels.uncovered)


def _outcome(opened: Opened, run: Callable[..., int] | None) -> tuple[str, list[int], list[int]]:
    try:
        cover, places = account(opened, whole=opened.file_type != FileType.MANIFEST, run=run)
    except FormatError as error:
        return str(error), [], []
    return "", cover.tolist(), places.tolist()


def _hashes(data: bytes, name: str, loop: Callable[..., int] | None) -> tuple[str, list[int]]:
    try:
        return "", named_chunks(data, name, loop=loop).native.tolist()
    except FormatError as error:
        return str(error), []


def test_a_damaged_body_ends_alike_compiled_and_in_python(lake: Path) -> None:
    rng = random.Random(5)
    refused = 0
    for kind, name, data in files(lake):
        opened = open_file(data, name, FileType(data[37]))
        for _ in range(300):
            body = bytearray(opened.body)
            for _ in range(rng.choice([1, 1, 3])):
                body[rng.randrange(len(body))] = rng.choice([0, 255, rng.randrange(256)])
            damaged = close_file(opened.header, bytes(body))
            again = open_file(damaged, name, FileType(data[37]))
            fast = _outcome(again, kernels.compiled("account"))
            assert _outcome(again, kernels.account) == fast
            refused += bool(fast[0])
            if kind == "manifests":
                slow = _hashes(damaged, name, kernels.native_hashes)
                assert slow == _hashes(damaged, name, kernels.compiled("native_hashes"))
    assert refused > 100


def test_manifest_without_arrays_names_nothing(lake: Path) -> None:
    _, name, data = next(file for file in files(lake) if file[0] == "manifests")
    # root at 16, its vtable at 8: id in slot 0, nothing else
    body = (16).to_bytes(4, "little") + bytes(4) + bytes([6, 0, 16, 0, 4, 0, 0, 0])
    body += (8).to_bytes(4, "little") + decode_id(name.rpartition("/")[2])
    empty = close_file(data[:39], body)
    assert parse_manifest(empty, name).arrays == ()
    assert named_chunks(empty, name).native.tolist() == []
