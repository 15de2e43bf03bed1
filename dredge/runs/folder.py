"""The folder of a run: plan, parts, summaries.

<run root>/<run id>/
    plan.json
    <step>/part-00000.parquet …   rows, named by task so that a repeated task writes the same names
    <step>/_progress/…            how far long tasks are
    <step>/_SUCCESS.json          the summary, written last: without it the step did not happen
    <step>/_INCOMPLETE.json       the summary of a step that ended held or partial
    <step>/_FAILED.json           the error of the last failed attempt
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dredge.errors import DredgeError, FormatError, NotFoundError
from dredge.runs.summary import PartInfo, StepSummary
from dredge.storage import ObjectReader, ObjectWriter

SUCCESS = "_SUCCESS.json"
INCOMPLETE = "_INCOMPLETE.json"
FAILED = "_FAILED.json"
_COMPLETE = ("success", "dry_run")


class RunFolder:
    """Reads and writes the files of one run.

    Args:
        writer: on the folder itself.
        run_id: the run's id.
    """

    def __init__(self, writer: ObjectWriter, run_id: str) -> None:
        self.writer = writer
        self.run_id = run_id

    @property
    def uri(self) -> str:
        """URI of the folder."""
        return self.writer.uri

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file, replacing what was there."""
        self.writer.put(name, json.dumps(value, sort_keys=True).encode())

    def read_json(self, name: str) -> Any:
        """Read a JSON file.

        Raises:
            NotFoundError: there is none.
            FormatError: not JSON.
        """
        return read_json(self.writer, name)

    def write_bytes(self, name: str, data: bytes, rows: int) -> PartInfo:
        """Write a file as a part."""
        self.writer.put(name, data)
        return PartInfo(name, rows, len(data), hashlib.sha256(data).hexdigest())

    def write_table(self, step: str, index: int, table: pa.Table, kind: str = "part") -> PartInfo:
        """Write rows as `<step>/<kind>-<index>.parquet`.

        Args:
            step: folder.
            index: makes the name; the same task must always give the same.
            table: the rows.
            kind: first half of the name.
        """
        name = f"{step}/{kind}-{index:05d}.parquet"
        return self.write_bytes(name, parquet_bytes(table), table.num_rows)

    def read_bytes(self, part: PartInfo) -> bytes:
        """Read a part's bytes.

        Raises:
            FormatError: missing, or not the bytes that were written.
        """
        try:
            data = self.writer.get(part.name)
        except NotFoundError:
            raise FormatError(f"run {self.run_id}: {part.name} is gone. Start a new run.") from None
        check_digest(part, data, f"run {self.run_id}")
        return data

    def read_part(self, part: PartInfo, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a part's rows; raises FormatError like `read_bytes`, and when rows are missing."""
        table = read_parquet(self.read_bytes(part), columns)
        if table.num_rows != part.rows:
            raise FormatError(
                f"run {self.run_id}: {part.name} has {table.num_rows} rows, {part.rows} were written. Start"
                " a new run."
            )
        return table

    def read_parts(
        self, parts: Iterable[PartInfo], columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        """Read parts one after the other."""
        return (self.read_part(part, columns) for part in parts)

    def write_summary(self, summary: StepSummary) -> None:
        """Write a step's summary; from then on the step is complete (or, by its status, known to be
        incomplete)."""
        name = SUCCESS if summary.status in _COMPLETE else INCOMPLETE
        self.write_json(f"{summary.step}/{name}", summary.to_json())

    def read_summary(self, step: str) -> StepSummary | None:
        """Read the summary of a complete step; None when it is not complete.

        Raises:
            FormatError: the summary was damaged.
        """
        return self._summary(f"{step}/{SUCCESS}")

    def read_incomplete(self, step: str) -> StepSummary | None:
        """Read the summary that a held or partial step left; None when there is none."""
        return self._summary(f"{step}/{INCOMPLETE}")

    def write_failure(self, step: str, error: BaseException, at: datetime) -> None:
        """Record why a step failed, for the report."""
        kind = error.kind if isinstance(error, DredgeError) else "unexpected"
        message = str(error) or type(error).__name__
        value = {
            "step": step,
            "kind": kind,
            "error": type(error).__name__,
            "message": message,
            "at": at.isoformat(),
        }
        self.write_json(f"{step}/{FAILED}", value)

    def read_failure(self, step: str) -> dict[str, Any] | None:
        """Read why a step failed the last time it did; None when it never did."""
        try:
            value: dict[str, Any] = self.read_json(f"{step}/{FAILED}")
        except NotFoundError:
            return None
        return value

    def _summary(self, name: str) -> StepSummary | None:
        try:
            return StepSummary.from_json(self.read_json(name))
        except NotFoundError:
            return None
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"run {self.run_id}: {name} cannot be read ({error}). Start a new run."
            ) from None


def parquet_bytes(table: pa.Table) -> bytes:
    """Write a table as parquet. Hashes do not compress, texts do not repeat: no dictionaries, no
    statistics."""
    codecs = {field.name: "NONE" if pa.types.is_uint64(field.type) else "ZSTD" for field in table.schema}
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=codecs, use_dictionary=False, write_statistics=False)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_parquet(data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a parquet file from memory, in this thread.

    Raises:
        FormatError: not such a file.
    """
    try:
        return pq.read_table(pa.BufferReader(data), columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"a parquet file cannot be read: {error}") from None


def read_json(reader: ObjectReader, name: str) -> Any:
    """Read a JSON object; raises NotFoundError, and FormatError when it is no JSON."""
    data = reader.get(name)
    try:
        return json.loads(data)
    except ValueError as error:
        raise FormatError(f"{reader.uri}/{name} is not JSON: {error}") from None


def check_digest(part: PartInfo, data: bytes, whose: str) -> None:
    """Compare a part's bytes with what its writer recorded.

    Raises:
        FormatError: they differ.
    """
    if len(data) != part.size_bytes or hashlib.sha256(data).hexdigest() != part.sha256:
        raise FormatError(
            f"{whose}: the bytes of {part.name} are not those that were written. Start a new run."
        )
