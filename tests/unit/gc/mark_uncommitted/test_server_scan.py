"""Pages of the server's scan: each of these loses data with a collector that trusts one answer."""

import base64
import io
import json
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.mark_uncommitted import StagedFiles
from dredge.gc.mark_uncommitted.staged import Extent, ServerScan, canonical_staged, scan_server
from dredge.lakefs import UncommittedPage
from dredge.lakefs.files.records import uncommitted_key
from tests.support.gc import make_world, seen_with


def test_trap_03_pages_are_united_whatever_the_last_one_says() -> None:
    """Vendor: an empty last page makes it forget everything that is staged."""
    world = seen_with(
        make_world(),
        defects=frozenset({"empty_last_page"}),
        prepare_flush_rows=1,
        prepare_file_bytes_max=16,
    )
    staged = {world.upload(f"path/{number:02d}", b"%d" % number) for number in range(20)}
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    context = world.collected()
    summary = context.folder.read_summary("mark_uncommitted")
    assert summary is not None
    assert summary.counts["pages"] > 2
    assert summary.counts["empty_pages"] >= 1
    assert world.data() == staged
    assert orphan not in world.data()


def test_trap_43_a_repeated_token_stops_the_run() -> None:
    world = seen_with(
        make_world(),
        defects=frozenset({"repeated_token"}),
        prepare_flush_rows=1,
        prepare_file_bytes_max=16,
    )
    for number in range(20):
        world.upload(f"path/{number:02d}", b"%d" % number)
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    with pytest.raises(RefusedError, match="token"):
        world.collect()
    assert orphan in world.data()


def test_trap_43_pages_without_rows_are_normal() -> None:
    world = seen_with(make_world(), prepare_interval=timedelta(0))
    for number in range(5):
        world.lake.catalog.branches.create_branch(world.lake.repository, f"b{number}", "main")
    staged = world.upload("a", b"1")
    world.age(days=2)
    context = world.collected()
    summary = context.folder.read_summary("mark_uncommitted")
    assert summary is not None
    assert summary.counts["empty_pages"] > 1
    assert staged in world.data()


def test_a_page_whose_file_is_missing_stops_the_run() -> None:
    world = seen_with(make_world(), defects=frozenset({"page_missing"}))
    staged = world.upload("a", b"1")
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    with pytest.raises(RefusedError, match=r"1 pages.*\b0\b"):
        world.collect()
    assert {staged, orphan} <= world.data()


DEFAULT = uncommitted_key("r1")


def token(branch: str, path: str = "") -> str:
    return base64.b64encode(json.dumps({"branch": branch, "path": path}).encode()).decode()


class Server:
    def __init__(self) -> None:
        self.world = make_world()
        self.run = self.world.plan()
        self.world.client.prepare_uncommitted = self._answer  # type: ignore[method-assign, assignment]
        self.answers: list[UncommittedPage | Exception] = []
        self.asked: list[str | None] = []
        self.files: dict[str, bytes] = {}

    def _answer(self, _repository: str, token: str | None) -> UncommittedPage:
        self.asked.append(token)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def put(self, key: str, *addresses: str | None, column: str = "physical_address") -> None:
        sink = io.BytesIO()
        pq.write_table(pa.table({column: pa.array(addresses, pa.string())}), sink)
        self.files[key] = sink.getvalue()
        self.world.lake.objects.put(key, self.files[key])

    def page(self, location: str = "", following: str | None = None, run_id: str = "r1") -> None:
        where = f"{self.world.lake.namespace}/{location}" if location else ""
        self.answers.append(UncommittedPage(run_id, where, following))

    def scan(self, deadline: float = float("inf")) -> ServerScan:
        return scan_server(self.run, StagedFiles(self.run.folder, "scan"), deadline)


@pytest.fixture
def server() -> Server:
    return Server()


def test_pages_of_two_scans_are_not_one(server: Server) -> None:
    server.page("", token("m"))
    server.page("", None, run_id="r2")
    with pytest.raises(RefusedError, match=r"r1.*r2"):
        server.scan()


def test_a_file_without_addresses_is_not_one_of_nothing(server: Server) -> None:
    server.put(f"{DEFAULT}one", "data/a", column="address")
    server.page(DEFAULT)
    with pytest.raises(FormatError, match="physical_address"):
        server.scan()


def test_a_row_without_an_address_is_not_passed_over(server: Server) -> None:
    server.put(f"{DEFAULT}one", "data/a", None)
    server.page(DEFAULT)
    with pytest.raises(FormatError):
        server.scan()


def test_full_addresses_count_in_both_forms() -> None:
    addresses = pa.chunked_array([["data/a", "s3://b/lake/data/b"], ["s3://b/elsewhere/data/c"]])
    found = canonical_staged(addresses, "s3://b/lake")
    assert sorted(found.to_pylist()) == [
        "data/a",
        "data/b",
        "s3://b/elsewhere/data/c",
        "s3://b/lake/data/b",
    ]
    assert canonical_staged(pa.chunked_array([], pa.string()), "s3://b/lake").to_pylist() == []
    assert np.array_equal(canonical_staged(pa.chunked_array([["data/a"]]), "s3://b/lake"), ["data/a"])


@pytest.mark.parametrize(
    ("asked", "given", "starts"),
    [
        (None, None, {"a": "", "m": "", "z": ""}),
        (None, token("m"), {"a": "", "m": None, "z": None}),
        (None, token("m", "p"), {"a": "", "m": "", "z": None}),
        (token("m"), None, {"a": None, "m": "", "z": ""}),
        (token("m", "path/7"), token("z"), {"a": None, "m": "path/", "z": None}),
        (token("m", "path/7"), None, {"a": None, "m": "path/", "z": ""}),
        ("not a token", "nor this", {"a": "", "m": "", "z": ""}),
        (token("m", "\ufffd7"), None, {"a": None, "m": "", "z": ""}),
        (token("é"), None, {"z": None, "é": "", "😀": ""}),
    ],
)
def test_what_a_page_may_have_covered(
    asked: str | None, given: str | None, starts: dict[str, str | None]
) -> None:
    extent = Extent.between(asked, given)
    assert {branch: extent.after(branch) for branch in starts} == starts


@pytest.mark.parametrize(
    ("passed", "branch"),
    [(token("m", "p\ufffd"), "m"), (token("m", "p"), None), (token("m"), None), (None, None), ("odd", None)],
)
def test_a_token_that_cannot_spell_its_path_may_have_skipped_the_rest_of_its_branch(
    passed: str | None, branch: str | None
) -> None:
    skipped = Extent.skipped_by(passed)
    if branch is None:
        assert skipped is None
        return
    assert skipped is not None
    assert (skipped.branch, skipped.until, skipped.into) == (branch, branch, True)
    assert [skipped.after(name) for name in ("a", branch, "z")] == [None, "", None]


@pytest.mark.parametrize(
    "odd", ["bm90IGpzb24=", "e30=", "WzFd", "m", "bnVsbA==", token("m")[:-2] + "*=", "*" + token("m")]
)
def test_a_page_whose_token_is_not_understood_may_have_covered_everything(odd: str) -> None:
    extent = Extent.between(odd, odd)
    assert [extent.after(name) for name in ("a", "m", "z")] == ["", "", ""]
