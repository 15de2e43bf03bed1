"""The folder of a run: plan, parts, summaries.

<run root>/<run id>/
    plan.json
    <step>/_try.json                   number of the newest try; see `dredge.runs.tries`
    <step>/t001/part-00000.parquet …   rows of a try; parts of a task have the id of its call before the dot
    <step>/_progress/…                 progress of long tasks
    <step>/_SUCCESS.json               the summary, written last: without it the step is not complete
    <step>/_INCOMPLETE.json            the summary of a try without success
    <step>/_FAILED.json                the error of the last failed try
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dredge.errors import DefectError, DredgeError, FormatError, NotFoundError
from dredge.runs.failures import places
from dredge.runs.parts import (
    BY_DIGEST,
    cache_parts,
    get_part_cache,
    grouped_bytes,
    parquet_bytes,
    read_cached,
    read_parquet,
)
from dredge.runs.payload import PartInfo, StepOutput, StepSummary, from_sealed, to_sealed
from dredge.runs.tries import StepTry, newest_number
from dredge.storage import ObjectReader, ObjectWriter, open_writer
from dredge.storage.parallel import at_once, ordered_map
from dredge.xid import descending_time

if TYPE_CHECKING:
    import pyarrow as pa

SUCCESS = "_SUCCESS.json"
INCOMPLETE = "_INCOMPLETE.json"
FAILED = "_FAILED.json"
_COMPLETE = ("success", "dry_run")
_AT_ONCE = 16


class RunFolder:
    """Reads and writes the files of a run. `attempt`: the try that writes; None outside a step. `call`: id of a task's
    call, in the keys of its parts: a task that the scheduler lost may still run beside its repetition, and neither may
    replace files of the other. `written`: immutable JSON files written by this process, by name; see `read_once`."""

    def __init__(
        self,
        writer: ObjectWriter,
        run_id: str,
        attempt: StepTry | None = None,
        call: str = "",
        written: Mapping[str, Any] | None = None,
    ) -> None:
        self.writer = writer
        self.run_id = run_id
        self.attempt = attempt
        self.call = call
        self.goes_on = False
        self._kept: dict[str, Any] | None = None
        self._written = written or {}

    @classmethod
    def of_task(cls, run_uri: str, run_id: str, attempt: tuple[str, int] | None) -> RunFolder:
        """Open the folder in a task. `attempt`: the driver's try, from `StepTry.named`; None outside a step."""
        writer = open_writer(run_uri)
        found = None if attempt is None else StepTry(writer, *attempt)
        return cls(writer, run_id, found, call=uuid.uuid4().hex[:8])

    @property
    def label(self) -> str:
        """`<run id>-t<try>`: prefix of names outside the folder, unique to the try."""
        return self.run_id if self.attempt is None else f"{self.run_id}-t{self.attempt.number:03d}"

    @property
    def call_label(self) -> str:
        """`label` with the id of the task's call: unique to the call."""
        return f"{self.label}-{self.call}" if self.call else self.label

    @contextmanager
    def writing(self, attempt: StepTry) -> Iterator[None]:
        """Write for a try within a block."""
        before, self.attempt = self.attempt, attempt
        try:
            yield
        finally:
            self.attempt = before

    def settle(self) -> None:
        """Wait until all parts are written; raises the first error. Call it before another process reads them; see
        `keeping`."""
        try:
            if (parts := get_part_cache(self.uri)) is not None:
                parts.settle()
        except BaseException:
            self.forget()
            raise

    def forget(self) -> None:
        """Drop cached summaries, because one of them may not be in the store."""
        if self._kept is not None:
            self._kept.clear()

    @property
    def uri(self) -> str:
        """URI of the folder."""
        return self.writer.uri

    def write_json(self, name: str, value: Any) -> None:
        """Write or replace a JSON file."""
        self.writer.put(name, json.dumps(value, sort_keys=True).encode())

    def publish_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON object for people, unless a later try of the step wrote it. Raises OvertakenError if there is a
        later try."""
        attempt = self.attempt
        if attempt is None:
            self.write_json(name, value)
        else:
            self.start(name, lambda: attempt.publish(name, value))

    def start(self, name: str, write: Callable[[], object]) -> None:
        """Write an object in the background if parts are cached; `settle` waits for it."""
        if (parts := get_part_cache(self.uri)) is None:
            write()
        else:
            parts.start(name, write)

    def read_json(self, name: str) -> Any:
        """Read a JSON file. Raises NotFoundError: there is none; FormatError: not JSON."""
        return read_json(self.writer, name)

    def write_bytes(self, name: str, data: bytes, rows: int) -> PartInfo:
        """Write a file as a part; its key is unique to the try and the task's call."""
        key = name if self.attempt is None else self.attempt.key(name)
        if self.call:
            stem, dot, kind = key.rpartition(".")
            key = f"{stem}-{self.call}{dot}{kind}"
        digest = hashlib.sha256(data).hexdigest()
        if (parts := get_part_cache(self.uri)) is not None:
            parts.write(self.writer, key, data)
        else:
            self.writer.put(key, data)
            if (kept := get_part_cache(BY_DIGEST)) is not None:
                kept.put(digest, data)
        return PartInfo(name, rows, len(data), digest, key)

    def write_table(
        self, step: str, index: int, table: pa.Table, kind: str = "part", grouped: bool = False
    ) -> PartInfo:
        """Write rows as `<step>/<kind>-<index>.parquet`. `index`: the same for the same task. `grouped`: write row
        groups for readers of some rows; see `parts`."""
        name = f"{step}/{kind}-{index:05d}.parquet"
        data = grouped_bytes(table) if grouped else parquet_bytes(table)
        return self.write_bytes(name, data, table.num_rows)

    def read_bytes(self, part: PartInfo) -> bytes:
        """Read a part's bytes. Raises FormatError if missing, or not the bytes that were written."""
        parts, key = get_part_cache(self.uri), part.key
        if parts is None:
            parts, key = get_part_cache(BY_DIGEST), part.sha256
        return read_cached(self.writer, part, parts, key, f"run {self.run_id}")

    def read_ahead(self, parts: Iterable[PartInfo]) -> None:
        """Read small parts in parallel into the cache; see `keeping`. Raises FormatError like `read_bytes`."""
        if get_part_cache(self.uri) is not None:
            list(ordered_map(self.read_bytes, list(parts), _AT_ONCE))

    def read_part(self, part: PartInfo, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a part's rows; raises FormatError, also for missing rows."""
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
        """Read parts in sequence."""
        return (self.read_part(part, columns) for part in parts)

    def write_summary(self, summary: StepSummary) -> None:
        """Write a step's summary; it completes the step, or marks it as incomplete by its status. Raises OvertakenError
        if there is a later try. Readers ignore a late summary. Within `keeping` for several steps, the summary of a
        complete step is written while the next step claims its try; `settle` waits for it."""
        self.settle()
        is_complete = summary.status in _COMPLETE
        name = f"{summary.step}/{SUCCESS if is_complete else INCOMPLETE}"
        attempt = StepTry(self.writer, summary.step, summary.try_number)
        if self._kept is not None:
            self._kept[summary.step] = summary if is_complete else None
        if is_complete and self.goes_on:
            self.start(name, lambda: attempt.publish(name, to_sealed(summary)))
            return  # the next step checks the try number
        attempt.publish(name, to_sealed(summary))
        if not self.goes_on:
            attempt.check()

    def read_summary(self, step: str) -> StepSummary | None:
        """Read the summary of a complete step; None if it is not complete. Only the summary of the newest try is a
        result; while a try is running, the step is not complete. Raises FormatError: the summary was damaged."""
        if self._kept is not None and (kept := self._kept.get(step)) is not None:
            return kept  # type: ignore[no-any-return]
        # The summary is read before the number: a try that starts in between is noticed.
        summary = self._summary(f"{step}/{SUCCESS}")
        if summary is None or summary.try_number != newest_number(self.writer, step):
            return None
        if self._kept is not None:
            self._kept[step] = summary
        return summary

    def read_output[O: StepOutput](self, output: type[O]) -> O | None:
        """Read the output of a complete step; see `read_summary`."""
        summary = self.read_summary(output.STEP)
        return None if summary is None else output.of(summary)

    @contextmanager
    def keeping(self, goes_on: bool = False) -> Iterator[None]:
        """Cache summaries, the plan and small parts within the block, and write parts in parallel. Try numbers are read
        again at the start of a step, and the whole chain before deletions and before the state advances. `goes_on`:
        several steps run within the block."""
        before = self._kept, self.goes_on
        with cache_parts(self.uri):
            self._kept = dict(self._written) if self._kept is None else self._kept
            self.goes_on = self.goes_on or goes_on
            try:
                yield
            finally:
                self._kept, self.goes_on = before

    def read_once(self, name: str) -> Any:
        """Read an immutable JSON file; cached within `keeping`."""
        if self._kept is None:
            return self.read_json(name)
        if name not in self._kept:
            self._kept[name] = self.read_json(name)
        return self._kept[name]

    def known_summaries(self, steps: Iterable[str]) -> dict[str, StepSummary]:
        """Return the cached summaries of complete steps; see `keeping`."""
        kept = self._kept or {}
        return {step: kept[step] for step in steps if kept.get(step) is not None}

    def read_summaries(self, steps: Iterable[str]) -> dict[str, StepSummary | None]:
        """Read summaries in parallel; see `read_summary`."""
        names = list(steps)
        return dict(zip(names, ordered_map(self.read_summary, names, _AT_ONCE), strict=True))

    def read_valid_summaries(
        self, steps: Iterable[str], reread: bool = False
    ) -> dict[str, StepSummary | None]:
        """Read the valid summaries in parallel. A summary of a try is replaced only by a later try, so for cached ones
        the try number is enough. `reread`: read cached summaries again."""
        names = list(steps)

        def read(step: str) -> StepSummary | None:
            kept = None if self._kept is None else self._kept.get(step)
            if self._kept is None or kept is None:
                return self.read_summary(step)
            with at_once() as ask:  # the summary existed before, so its number may be read at the same time
                number = ask(newest_number, self.writer, step)
                found = self._summary(f"{step}/{SUCCESS}") if reread else kept
            if found is None or found.try_number != number.result():
                self._kept.pop(step, None)
                return self.read_summary(step)
            if not reread:
                return found  # not cached again: its write may have failed
            self._kept[step] = found
            return found

        return dict(zip(names, ordered_map(read, names, _AT_ONCE), strict=True))

    def last_summary(self, step: str) -> StepSummary | None:
        """Read the summary of the last complete try, also if a later try has started; None if absent. No later step
        may build on it. Raises FormatError if the summary was damaged."""
        return self._summary(f"{step}/{SUCCESS}")

    def read_incomplete(self, step: str) -> StepSummary | None:
        """Read the summary of the last try without success; None if absent."""
        return self._summary(f"{step}/{INCOMPLETE}")

    def write_failure(
        self, step: str, error: BaseException, at: datetime, attempt: StepTry | None = None
    ) -> None:
        """Record why a step failed, for the report. `attempt`: the failed try; None if it claimed none. A failure
        without a try does not replace one of a try. Raises OvertakenError if there is a later try."""
        stored = self.read_failure(step)
        claimed = attempt is not None
        attempt = attempt or StepTry.newest(self.writer, step)
        if (
            not claimed
            and stored is not None
            and stored["claimed"]
            and stored["try_number"] == attempt.number
        ):
            return
        value = {
            "step": step,
            "kind": error.kind if isinstance(error, DredgeError) else DefectError.kind,
            "error": type(error).__name__,
            "message": str(error) or type(error).__name__,
            "at": at.isoformat(),
            "claimed": claimed,
        }
        if not isinstance(error, DredgeError) or isinstance(error, DefectError):
            value["traceback"] = places(error.__cause__ or error)
        attempt.check()
        attempt.publish(f"{step}/{FAILED}", value)

    def read_failure(self, step: str) -> dict[str, Any] | None:
        """Read the last failure of a step; None if absent. Returns `step`, `kind`, `error` (class), `message`, `at`,
        `try_number`, `claimed` (the try had started), and `traceback` of a defect."""
        try:
            value: dict[str, Any] = self.read_json(f"{step}/{FAILED}")
        except NotFoundError:
            return None
        return value

    def read_damage(self, step: str) -> str | None:
        """Return the message about a damaged file at the end of a step; None otherwise, or if the step is complete
        now."""
        failure = self.read_failure(step)
        if failure is None or failure["kind"] != FormatError.kind or self.read_summary(step) is not None:
            return None
        return str(failure["message"])

    def read_open_failure(self, step: str, done: StepSummary | None) -> dict[str, Any] | None:
        """Return why a step is not complete; None if it is complete or has no failure. `done`: its summary, from
        `read_summary`."""
        failure = self.read_failure(step)
        if failure is None or done is None:
            return failure
        # The summary is of the newest try, so no try failed after it. A failure without a try is compared by time; with
        # a wrong clock only the report is wrong.
        late = not failure["claimed"] and datetime.fromisoformat(failure["at"]) > done.finished_at
        return failure if late else None

    def _summary(self, name: str) -> StepSummary | None:
        try:
            return from_sealed(StepSummary, self.read_json(name))
        except NotFoundError:
            return None
        except FormatError as error:
            raise FormatError(
                f"run {self.run_id}: {name} cannot be read ({error}). Start a new run."
            ) from None


def read_json(reader: ObjectReader, name: str) -> Any:
    """Read a JSON object; raises NotFoundError, and FormatError if it is not JSON."""
    data = reader.get(name)
    try:
        return json.loads(data)
    except ValueError as error:
        raise FormatError(f"{reader.uri}/{name} is not JSON: {error}") from None


def run_ids(reader: ObjectReader) -> list[str]:
    """Return the ids of the runs below a run root, newest first."""
    names = [folder.rstrip("/") for folder in reader.list_level("").folders]
    return sorted(name for name in names if is_run_id(name))


def is_run_id(name: str) -> bool:
    """Whether a name is a descending xid, as run ids are."""
    try:
        descending_time(name)
    except FormatError:
        return False
    return True
