"""The catalog on what a real server wrote: records and prepared addresses; its answers are replayed over HTTP in
`tests/system/test_embedded_lakefs_replay.py`.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dredge.lakefs.files.records import Branch
from lakefs_embedded.catalog import Settings
from lakefs_embedded.refs.records import Tag, branch_record
from lakefs_embedded.staging.area import Staged
from tests.support.captured import FOLDER, REPOSITORY, captured_lake, kv_rows
from tests.support.lakes import Lake


def prepared_rows(lake: Lake) -> Iterator[dict[str, Any]]:
    token = None
    while True:
        page = lake.catalog.garbage.prepare_uncommitted(REPOSITORY, token)
        token = page.continuation_token
        if token is None:
            break
    reader = lake.objects
    folder = f"_lakefs/retention/gc/uncommitted/{page.run_id}/uncommitted/"
    for batch in reader.list(folder):
        for key in batch.column("key").to_pylist():
            yield from pq.read_table(pa.BufferReader(reader.get(key))).to_pylist()


def test_prepared_uncommitted_addresses_of_one_row_pages_equal_the_servers() -> None:
    settings = Settings(background=False, prepare_file_bytes_max=4, prepare_flush_rows=1)
    captured = [
        row
        for path in sorted((FOLDER / "namespace").glob("_lakefs/retention/gc/uncommitted/*/uncommitted/*"))
        for row in pq.read_table(path).to_pylist()
    ]
    ours = list(prepared_rows(captured_lake(settings)))
    assert sorted(ours, key=str) == sorted(captured, key=str)


def test_records_are_written_as_the_server_wrote_them() -> None:
    """Else a compare-and-set on a record of a real server would never find what it expects."""
    seen = set()
    for partition, key, value in kv_rows():
        kind = "staged" if b":" in partition else key.partition(b"/")[0].decode()
        if kind == "staged":
            written = Staged.decode(key, value).encode()
        elif kind == "branches":
            written = branch_record(Branch.decode(value))
        elif kind == "tags":
            written = Tag.decode(value).encode()
        else:
            continue
        assert written == value, key
        seen.add(kind)
    assert seen == {"staged", "branches", "tags"}
