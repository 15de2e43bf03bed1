"""Check again: one step of the order of every complete mark, after its record is left and before its guards.

    find → judge → alarm written → brought back, pinned → alarm with outcomes → finished check recorded

Nothing is recorded before everything is done: a check that was killed is done again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import AlarmError, DredgeError, UnavailableError
from dredge.gc.check_again.adopt import adopt_deletions
from dredge.gc.check_again.find import Found, Hits, find_hits
from dredge.gc.check_again.judge import explained
from dredge.gc.run import Run
from dredge.gc.witness.ownership import read_owner
from dredge.runs.steps import StepRecord
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import Hashes, contains, unite
from dredge.storage.parallel import at_once
from dredge.undo import alarms
from dredge.undo.alarms import NOT_YET, Alarm
from dredge.undo.deletions import read_checked, read_deletions, write_checked
from dredge.undo.putting_back import FAILED, GONE, RESTORED, THERE, Restored, Source, bring_back

log = logging.getLogger("dredge")

_REUSED = "an expired commit that named them is in use again"
_ALARM = "live, and deleted by a run that took them for garbage"
_OFF = "restore_off"
"""Outcome of what `restore_reused` leaves as it is; a run that asks for it brings it back."""


def check_again(run: Run, runner: TaskRunner, record: StepRecord) -> AlarmError | None:
    """Compare what runs deleted with what is live, and bring back what is live again.

    Args:
        run: this run; its mark is complete.
        runner: spreads the search for paths of equal size.
        record: of check_limits; takes figures and warnings.

    Returns:
        The error that this run must end with; None where nothing is wrong.

    Raises:
        UnavailableError: the store does not answer.
        OvertakenError: another run has checked meanwhile.
        FormatError: an alarm of an earlier run cannot be read.
    """
    with at_once() as ask:
        checked_read, known_read = ask(read_checked, run.state), ask(read_deletions, run.state)
        is_owner = _is_owner(run)
    if not is_owner:
        return None
    checked, known = checked_read.result(), known_read.result()
    if checked.problem:
        record.warn(f"{checked.problem}. Everything that runs deleted is compared again")
    unread: list[str] = []
    # A record that the last check compared and that is gone was removed with its run's folder, or was lost.
    if not checked.sweeps or checked.sweeps - {item.sweep for item in known.found}:
        unread, has_adopted = adopt_deletions(run, known)
        known = read_deletions(run.state) if has_adopted else known
    found = find_hits(run, runner, record, checked, known)
    found.unread += unread
    judged = [_judge(run, hits) for hits in found.hits]
    raised = _raise_alarm(run, judged)
    unfinished = unite([_bring_back(run, item) for item in judged])
    if raised is not None:
        raised = _finish_alarm(run, raised, judged)
    _record(record, checked.run_id, found, judged)
    write_checked(
        run.state,
        checked,
        run.folder.label,
        run.plan.run_id,
        run.store_now(),
        found.sweeps,
        found.live[~contains(unfinished, found.live)],
    )
    still_open = alarms.open_alarms(run.state)
    if not still_open:
        return None
    error = alarms.alarm_error(f"run {run.plan.run_id}: live objects had been deleted", still_open)
    if raised is None and run.plan.dry_run:
        record.warn(str(error))
        return None
    return error


def _is_owner(run: Run) -> bool:
    """Whether the run's server owns the namespace, or none does yet. What is live on another server says nothing about
    the owner's deletions."""
    with at_once() as ask:
        environment = ask(run.client.environment)
        owner = read_owner(run.state)
    return owner is None or owner.includes(environment.result())


@dataclass(slots=True)
class _Judged:
    """Hits of one run that deleted.

    Attributes:
        hits: the rows.
        benign: of each row, whether an expired commit explains it.
        known: of each row, whether a person has acknowledged an alarm about it.
        became: of each row, what became of it.
    """

    hits: Hits
    benign: npt.NDArray[np.bool_]
    known: npt.NDArray[np.bool_]
    became: list[Restored]

    @property
    def alarming(self) -> npt.NDArray[np.bool_]:
        return ~self.benign & ~self.known

    def alarm_rows(self) -> pa.Table:
        """Rows of an alarm."""
        which = pa.array(self.alarming, pa.bool_())
        rows = self.hits.rows.filter(which)
        became = [item for item, mask in zip(self.became, self.alarming.tolist(), strict=True) if mask]
        columns = [
            rows["address"],
            rows["hash"],
            pa.array([self.hits.deletion.run_id] * rows.num_rows, pa.string()),
            pa.array([item.outcome for item in became], pa.string()),
            pa.array([item.message for item in became], pa.string()),
        ]
        return pa.Table.from_arrays(columns, schema=alarms.SCHEMA)


def _judge(run: Run, hits: Hits) -> _Judged:
    benign = explained(run, hits)
    known = _acknowledged(run, hits)
    return _Judged(hits, benign, known, [Restored(NOT_YET)] * hits.rows.num_rows)


def _acknowledged(run: Run, hits: Hits) -> npt.NDArray[np.bool_]:
    """Whether a person has acknowledged an alarm about each address and this deletion of it."""
    found = np.zeros(hits.rows.num_rows, bool)
    for alarm in alarms.read_alarms(run.state):
        if alarm.acknowledged is None or hits.deletion.run_id not in alarm.deleted_by:
            continue
        rows = alarms.read_rows(run.state, alarm)
        rows = rows.filter(pc.equal(rows["deleted_by"], hits.deletion.run_id))
        found |= pc.is_in(hits.rows["address"], rows["address"].combine_chunks()).to_numpy(
            zero_copy_only=False
        )
    return found


def _raise_alarm(run: Run, judged: Sequence[_Judged]) -> Alarm | None:
    """Write the alarm, before anything is brought back: what came back is no hit any more."""
    tables = [table for item in judged if (table := item.alarm_rows()).num_rows]
    if not tables:
        return None
    log.error("run %s: live objects had been deleted", run.plan.run_id)
    return alarms.write_alarm(
        run.state, run.folder.label, run.plan.run_id, run.store_now(), pa.concat_tables(tables)
    )


def _finish_alarm(run: Run, alarm: Alarm, judged: Sequence[_Judged]) -> Alarm:
    tables = [table for item in judged if (table := item.alarm_rows()).num_rows]
    return alarms.write_alarm(run.state, alarm.alarm_id, run.plan.run_id, alarm.at, pa.concat_tables(tables))


def _bring_back(run: Run, item: _Judged) -> Hashes:
    """Bring back what one run deleted: what is benign where it is asked for, the rest always. Gives the hashes of what
    a later check has to try again."""
    for which, reason in ((item.benign, _REUSED), (~item.benign, _ALARM)):
        places = np.flatnonzero(which).tolist()
        if not places:
            continue
        for place, became in zip(places, _brought(run, item, places, reason), strict=True):
            item.became[place] = became
    again = [
        i
        for i, became in enumerate(item.became)
        if became.outcome == _OFF or (became.outcome == FAILED and item.hits.swept is not None)
    ]
    hashes: Hashes = item.hits.rows["hash"].to_numpy()
    return hashes[np.array(again, np.int64)]


def _brought(run: Run, item: _Judged, places: Sequence[int], reason: str) -> Iterator[Restored]:
    swept, count = item.hits.swept, len(places)
    if swept is None:
        return iter([Restored(FAILED, "", "the ledger of the run that deleted it cannot be read")] * count)
    if reason == _REUSED and not run.plan.config.restore_reused:
        return iter([Restored(_OFF)] * count)
    source = Source(
        run_id=item.hits.deletion.run_id,
        run_uri=swept.folder.uri,
        way=swept.way,
        rows=item.hits.rows.take(pa.array(places)),
    )
    try:
        return iter(bring_back(run.plan.namespace, run.state, source, reason, run.store_now, run.options))
    except UnavailableError:
        raise
    except DredgeError as error:
        return iter([Restored(FAILED, "", str(error))] * count)


def _record(record: StepRecord, before: str, found: Found, judged: Sequence[_Judged]) -> None:
    """Note figures, and a sentence for each thing that a person should know."""
    became = [
        (row, kind) for item in judged for row, kind in zip(item.became, item.benign.tolist(), strict=True)
    ]
    record.counts.update(
        checked_deletions=len(found.sweeps),
        checked_objects=found.compared,
        exist_again_objects=found.there,
        reused_objects=sum(benign for _, benign in became),
        alarm_objects=sum(int(item.alarming.sum()) for item in judged),
        brought_back_objects=sum(row.outcome in (RESTORED, THERE) for row, _ in became),
        not_brought_back_objects=sum(row.outcome not in (RESTORED, THERE) for row, _ in became),
        asked_deleted_objects=found.asked,
        unread_deletions=len(found.unread),
    )
    record.details["check_again"] = {
        "since": before,
        "sweeps": sorted(found.sweeps),
        "unread": found.unread,
        "hits": [_facts(item) for item in judged],
    }
    for text in found.unread:
        record.warn(f"what a run deleted was not compared with what is live: {text}")
    if found.same_hash:
        record.warn(f"{found.same_hash:,} deleted addresses have the hash of a live one, but not its name")
    if found.unanswered:
        record.warn(
            f"of {found.asked:,} deleted objects that a branch could serve, {found.unanswered:,} questions were not"
            " answered"
        )
    for item in judged:
        if item.benign.any():
            record.warn(_words(item))


def _facts(item: _Judged) -> dict[str, object]:
    rows = item.hits.rows
    return {
        "deleted_by": item.hits.deletion.run_id,
        "objects": rows.num_rows,
        "benign": int(item.benign.sum()),
        "acknowledged": int((item.known & ~item.benign).sum()),
        "examples": rows["address"].slice(0, alarms.EXAMPLES).to_pylist(),
        "outcomes": {
            name: sum(row.outcome == name for row in item.became)
            for name in sorted({row.outcome for row in item.became})
        },
    }


def _words(item: _Judged) -> str:
    benign = item.benign.tolist()
    back = sum(
        row.outcome in (RESTORED, THERE) for row, mask in zip(item.became, benign, strict=True) if mask
    )
    count = sum(benign)
    example = item.hits.rows["address"][benign.index(True)].as_py()
    text = (
        f"{count:,} objects that run {item.hits.deletion.run_id} deleted are live again, because an expired commit that"
        f" named them is in use, or because the rules are gone, such as {example!r}; {back:,} were brought back"
    )
    if back == count:
        return text
    why = next(
        row
        for row, mask in zip(item.became, benign, strict=True)
        if mask and row.outcome not in (RESTORED, THERE)
    )
    words = {GONE: "neither a copy nor a version is left", _OFF: "restore_reused is off"}
    return f"{text}; the others were not: {why.message or words.get(why.outcome, why.outcome)}"
