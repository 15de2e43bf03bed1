"""The folder of a run: plan, parts, summaries.

<run root>/<run id>/
    plan.json
    <step>/_try.json                   how often the step was tried; see `dredge.runs.tries`
    <step>/t001/part-00000.parquet …   rows of a try; those of a task have the mark of its call before the dot
    <step>/_progress/…                 how far long tasks are
    <step>/_SUCCESS.json               the summary, written last: without it the step did not happen
    <step>/_INCOMPLETE.json            the summary of a try that ended in another way
    <step>/_FAILED.json                the error of the last try that failed
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pyarrow as pa

from dredge.errors import DefectError, DredgeError, FormatError, NotFoundError
from dredge.runs.failures import places
from dredge.runs.parts import (
    check_digest,
    grouped_bytes,
    keeping_parts,
    kept_parts,
    parquet_bytes,
    read_parquet,
)
from dredge.runs.payload import from_sealed, to_sealed
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tries import StepTry, newest_number
from dredge.storage import ObjectReader, ObjectWriter, open_writer
from dredge.storage.parallel import at_once, ordered_map
from dredge.xid import descending_time

SUCCESS = "_SUCCESS.json"
INCOMPLETE = "_INCOMPLETE.json"
FAILED = "_FAILED.json"
_COMPLETE = ("success", "dry_run")
_AT_ONCE = 16


class RunFolder:
    """Reads and writes the files of one run.

    Args:
        writer: on the folder itself.
        run_id: the run's id.
        attempt: the try whose results are written; None where no step is at work.
        call: of a task, in the keys of what it writes. A task that was taken for lost may still be at work beside its
            repetition, and what the two saw of the world may differ: neither replaces what the other told of.
    """

    def __init__(
        self, writer: ObjectWriter, run_id: str, attempt: StepTry | None = None, call: str = ""
    ) -> None:
        self.writer = writer
        self.run_id = run_id
        self.attempt = attempt
        self.call = call
        self.goes_on = False
        self._kept: dict[str, Any] | None = None

    @classmethod
    def of_task(cls, run_uri: str, run_id: str, attempt: tuple[str, int] | None) -> RunFolder:
        """Open the folder in a task: it writes what belongs to its driver's try, and to no other.

        Args:
            run_uri: URI of the folder.
            run_id: the run's id.
            attempt: the driver's try, as `StepTry.named` gives it; None outside a step.
        """
        writer = open_writer(run_uri)
        found = None if attempt is None else StepTry(writer, *attempt)
        return cls(writer, run_id, found, call=uuid.uuid4().hex[:8])

    @property
    def label(self) -> str:
        """`<run id>-t<try>`: begins the names of what a try writes outside the folder, so that no other try's
        files have them."""
        return self.run_id if self.attempt is None else f"{self.run_id}-t{self.attempt.number:03d}"

    @property
    def call_label(self) -> str:
        """As `label`, with the mark of a task's call: no other call of it has the same names."""
        return f"{self.label}-{self.call}" if self.call else self.label

    @contextmanager
    def writing(self, attempt: StepTry) -> Iterator[None]:
        """Let what is written meanwhile belong to a try."""
        before, self.attempt = self.attempt, attempt
        try:
            yield
        finally:
            self.attempt = before

    def settle(self) -> None:
        """Wait until all parts are there that are being written; see `keeping`. Comes before they are named to another
        process. Raises the first error."""
        if (parts := kept_parts(self.uri)) is not None:
            parts.settle()

    @property
    def uri(self) -> str:
        """URI of the folder."""
        return self.writer.uri

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file, replacing what was there."""
        self.writer.put(name, json.dumps(value, sort_keys=True).encode())

    def publish_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON object for people, unless a later try of the step has written it.

        Raises:
            OvertakenError: a later try was claimed.
        """
        if self.attempt is None:
            self.write_json(name, value)
        else:
            self.attempt.publish(name, value)

    def read_json(self, name: str) -> Any:
        """Read a JSON file.

        Raises:
            NotFoundError: there is none.
            FormatError: not JSON.
        """
        return read_json(self.writer, name)

    def write_bytes(self, name: str, data: bytes, rows: int) -> PartInfo:
        """Write a file as a part; it lies in the folder of the try, and no other call of a task writes there."""
        key = name if self.attempt is None else self.attempt.key(name)
        if self.call:
            stem, dot, kind = key.rpartition(".")
            key = f"{stem}-{self.call}{dot}{kind}"
        if (parts := kept_parts(self.uri)) is None:
            self.writer.put(key, data)
        else:
            parts.write(self.writer, key, data)
        return PartInfo(name, rows, len(data), hashlib.sha256(data).hexdigest(), key)

    def write_table(
        self, step: str, index: int, table: pa.Table, kind: str = "part", grouped: bool = False
    ) -> PartInfo:
        """Write rows as `<step>/<kind>-<index>.parquet`.

        Args:
            step: folder.
            index: makes the name; the same task must always give the same.
            table: the rows.
            kind: first half of the name.
            grouped: for people, too, who look at some of the rows (`groups`).
        """
        name = f"{step}/{kind}-{index:05d}.parquet"
        data = grouped_bytes(table) if grouped else parquet_bytes(table)
        return self.write_bytes(name, data, table.num_rows)

    def read_bytes(self, part: PartInfo) -> bytes:
        """Read a part's bytes.

        Raises:
            FormatError: missing, or not the bytes that were written.
        """
        parts = kept_parts(self.uri)
        data = None if parts is None else parts.get(part.key)
        if data is None:
            try:
                data = self.writer.get(part.key)
            except NotFoundError:
                raise FormatError(f"run {self.run_id}: {part.name} is gone. Start a new run.") from None
            if parts is not None:
                parts.put(part.key, data)
        check_digest(part, data, f"run {self.run_id}")
        return data

    def read_ahead(self, parts: Iterable[PartInfo]) -> None:
        """Read some small parts side by side, where they are kept; see `keeping`.

        Raises:
            FormatError: as `read_bytes` does.
        """
        if kept_parts(self.uri) is not None:
            list(ordered_map(self.read_bytes, list(parts), _AT_ONCE))

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
        incomplete).

        Raises:
            OvertakenError: a later try of the step was claimed. If the summary was written all the same, nobody
                reads it.
        """
        self.settle()
        is_complete = summary.status in _COMPLETE
        name = f"{summary.step}/{SUCCESS if is_complete else INCOMPLETE}"
        if not summary.try_number:
            self.write_json(name, to_sealed(summary))
            return
        attempt = StepTry(self.writer, summary.step, summary.try_number)
        attempt.publish(name, to_sealed(summary))
        if not self.goes_on:  # else the next step looks at the number
            attempt.check()
        if self._kept is not None:
            self._kept[summary.step] = summary if is_complete else None

    def read_summary(self, step: str) -> StepSummary | None:
        """Read the summary of a complete step; None when it is not complete.

        Only the summary of the try that was claimed last counts: what an earlier one wrote, whenever it came, is no
        result, and while a later one is at work there is none.

        Raises:
            FormatError: the summary was damaged.
        """
        if self._kept is not None and (kept := self._kept.get(step)) is not None:
            return kept  # type: ignore[no-any-return]
        # In this order: the number is compared as it is after the summary was there.
        summary = self._summary(f"{step}/{SUCCESS}")
        if summary is None or summary.try_number != newest_number(self.writer, step):
            return None
        if self._kept is not None:
            self._kept[step] = summary
        return summary

    @contextmanager
    def keeping(self, goes_on: bool = False) -> Iterator[None]:
        """Let this process not read again within the block what it read or wrote there: summaries of steps, the plan,
        small parts; and let it write parts side by side. Numbers of tries are read again when a step begins, and the
        whole chain before anything is deleted and before the state moves on.

        Args:
            goes_on: several steps are done within the block, one after the other.
        """
        before = self._kept, self.goes_on
        with keeping_parts(self.uri):
            self._kept = {} if self._kept is None else self._kept
            self.goes_on = self.goes_on or goes_on
            try:
                yield
            finally:
                self._kept, self.goes_on = before

    def read_once(self, name: str) -> Any:
        """Read a JSON file that is written once, unless it is kept; see `read_json` and `keeping`."""
        if self._kept is None:
            return self.read_json(name)
        if name not in self._kept:
            self._kept[name] = self.read_json(name)
        return self._kept[name]

    def read_summaries(self, steps: Iterable[str]) -> dict[str, StepSummary | None]:
        """Read the summaries of some steps side by side; each as `read_summary` does, which says what is raised."""
        names = list(steps)
        return dict(zip(names, ordered_map(self.read_summary, names, _AT_ONCE), strict=True))

    def standing_summaries(self, steps: Iterable[str], afresh: bool = False) -> dict[str, StepSummary | None]:
        """Read which summaries stand now, side by side. What a try published only a later one replaces, so of those
        that are kept the number of the try is enough.

        Args:
            steps: their names.
            afresh: reads those that are kept as well.
        """
        names = list(steps)

        def read(step: str) -> StepSummary | None:
            kept = None if self._kept is None else self._kept.pop(step, None)
            if self._kept is None or kept is None:
                return self.read_summary(step)
            with at_once() as ask:  # it was there before, so the number may be read in the same moment
                number = ask(newest_number, self.writer, step)
                found = self._summary(f"{step}/{SUCCESS}") if afresh else kept
            if found is None or found.try_number != number.result():
                return self.read_summary(step)
            self._kept[step] = found
            return found

        return dict(zip(names, ordered_map(read, names, _AT_ONCE), strict=True))

    def last_summary(self, step: str) -> StepSummary | None:
        """Read the summary of the last try of a step that was complete, also when another one was begun since; None
        when there is none. It is no result that a later step may build on.

        Raises:
            FormatError: the summary was damaged.
        """
        return self._summary(f"{step}/{SUCCESS}")

    def read_incomplete(self, step: str) -> StepSummary | None:
        """Read the summary that the last try of a step left without success; None when there is none."""
        return self._summary(f"{step}/{INCOMPLETE}")

    def write_failure(
        self, step: str, error: BaseException, at: datetime, attempt: StepTry | None = None
    ) -> None:
        """Record why a step failed, for the report.

        Args:
            step: its name.
            error: what was raised.
            at: when.
            attempt: the try that failed; None when the step could not even be begun. That is not recorded over
                the failure of a try that was.

        Raises:
            OvertakenError: a later try was claimed.
        """
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
        """Read why a step failed the last time it did; None when it never did.

        Returns:
            `step`, `kind`, `error` (class), `message`, `at`, `try_number`, `claimed` (whether the try was begun), and
            `traceback` of a defect.
        """
        try:
            value: dict[str, Any] = self.read_json(f"{step}/{FAILED}")
        except NotFoundError:
            return None
        return value

    def damage_met(self, step: str) -> str | None:
        """Read which damaged file a step ended at; None when it ended otherwise, or was done since."""
        failure = self.read_failure(step)
        if failure is None or failure["kind"] != FormatError.kind or self.read_summary(step) is not None:
            return None
        return str(failure["message"])

    def standing_failure(self, step: str, done: StepSummary | None) -> dict[str, Any] | None:
        """Read why a step is not done; None when it is, or nobody has failed at it.

        Args:
            step: its name.
            done: its summary, as `read_summary` gave it.
        """
        failure = self.read_failure(step)
        if failure is None or done is None:
            return failure
        # The summary that counts is of the newest try, so no failed one came after it. Of what could not even be
        # begun only the clocks tell, and the worst that they can do is a wrong word in a report.
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
    """Read a JSON object; raises NotFoundError, and FormatError when it is no JSON."""
    data = reader.get(name)
    try:
        return json.loads(data)
    except ValueError as error:
        raise FormatError(f"{reader.uri}/{name} is not JSON: {error}") from None


def run_ids(reader: ObjectReader) -> list[str]:
    """Ids of the runs below a run root, newest first.

    Args:
        reader: on the run root.
    """
    names = [folder.rstrip("/") for folder in reader.list_level("").folders]
    return sorted(name for name in names if is_run_id(name))


def is_run_id(name: str) -> bool:
    """Whether a name is one that runs get: a descending xid."""
    try:
        descending_time(name)
    except FormatError:
        return False
    return True
