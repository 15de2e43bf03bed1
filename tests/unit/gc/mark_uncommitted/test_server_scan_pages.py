"""A scan of the server, page by page: every file counts, and an answer that cannot be right ends it."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.mark_uncommitted.staged import ServerScan, StagedFiles, canonical_staged, scan_server
from dredge.hashing import hash64
from dredge.lakefs import UncommittedPage
from dredge.lakefs.files.gc_files import uncommitted_key
from tests.support.gc import make_world

DEFAULT = uncommitted_key("r1")


def token(branch: str, path: str = "") -> str:
    return base64.b64encode(json.dumps({"branch": branch, "path": path}).encode()).decode()


class Server:
    """Answers with pages, in their order, and whatever it is told to raise before.

    Attributes:
        asked: tokens that it was asked with.
        files: what was written, by key.
    """

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
        """Write a file, as the server does."""
        sink = io.BytesIO()
        pq.write_table(pa.table({column: pa.array(addresses, pa.string())}), sink)
        self.files[key] = sink.getvalue()
        self.world.lake.objects.put(key, self.files[key])

    def page(self, location: str = "", following: str | None = None, run_id: str = "r1") -> None:
        """Have a page answered; its location relative to the namespace, "" for none."""
        where = f"{self.world.lake.namespace}/{location}" if location else ""
        self.answers.append(UncommittedPage(run_id, where, following))

    def scan(self, deadline: float = float("inf")) -> ServerScan:
        return scan_server(self.run, StagedFiles(self.run.folder, "scan"), deadline)


@pytest.fixture
def server() -> Server:
    return Server()


def hashes_of(addresses: Sequence[str]) -> list[int]:
    return sorted(hash64(pa.array(addresses, pa.string())).tolist())


def test_the_files_of_every_folder_that_a_page_named_count_and_those_of_the_usual_one(server: Server) -> None:
    """The last page names none, and the server may write elsewhere than it does by default."""
    server.put(f"{DEFAULT}one", "data/a", "data/b")
    server.put("elsewhere/two", "data/b", "data/c")
    server.put("elsewhere-else/three", "data/x")
    server.page("elsewhere", token("m"))
    server.page()
    scan = server.scan()
    assert (scan.server_run, scan.pages, scan.empty_pages, scan.rows) == ("r1", 2, 1, 4)
    assert server.asked == [None, token("m")]
    assert scan.locations == {"elsewhere/"}
    assert scan.hashes.tolist() == hashes_of(["data/a", "data/b", "data/c"])
    assert scan.files == [
        {"key": key, "rows": 2, "size_bytes": len(server.files[key])}
        for key in (f"{DEFAULT}one", "elsewhere/two")
    ]


def test_pages_of_two_scans_are_not_one(server: Server) -> None:
    server.page("", token("m"))
    server.page("", None, run_id="r2")
    with pytest.raises(RefusedError, match=r"r1.*r2"):
        server.scan()


@pytest.mark.parametrize("pages", [2, 3])
def test_each_page_that_names_a_folder_wrote_a_file(server: Server, pages: int) -> None:
    server.put(f"{DEFAULT}one", "data/a")
    server.put(f"{DEFAULT}two", "data/b")
    for number in range(pages):
        server.page(DEFAULT, token(f"{number}"))
    server.page()
    if pages == 2:
        assert server.scan().rows == 2
    else:
        with pytest.raises(RefusedError, match=r"3 pages.*\b2\b"):
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
    """They are relative by contract; who writes one in full may mean either."""
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
