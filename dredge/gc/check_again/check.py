"""Check again: after the mark of each run and before its guards, compare earlier deletions with the live set.

    find → explain → write alarm → restore, pin → write outcomes to the alarm → record the finished check

The check is recorded last, so a killed check is repeated.
"""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from dredge.errors import AlarmError, DredgeError, FormatError, UnavailableError
from dredge.gc.check_again.find import Found, Hits, explained, find_hits
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.run import Run
from dredge.gc.state import earlier_runs
from dredge.gc.subtract import SubtractOutput
from dredge.gc.witness.owner import read_owner
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.run import StepRecord
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import Hashes, contains, read_hashes, unite
from dredge.storage import ObjectReader
from dredge.storage.parallel import at_once
from dredge.undo import alarms
from dredge.undo.alarms import NOT_YET, Alarm
from dredge.undo.deletions import (
    Checked,
    Deletion,
    Deletions,
    read_checked,
    read_deletions,
    write_checked,
    write_deletion,
    write_hashes,
)
from dredge.undo.putting_back import FAILED, GONE, RESTORED, THERE, Restored, Source, alarm_rows, bring_back

log = logging.getLogger("dredge")

_REUSED = "an expired commit with them is in use again"
_ALARM = "live, and deleted as garbage"
# The outcome without `restore_reused`; a later run with it restores the object.
_OFF = "restore_off"


class Earlier(Struct, frozen=True):
    """What earlier runs deleted."""

    checked: Checked  # the last finished check
    known: Deletions
    unread: list[str]  # a message for each run whose record is missing and cannot be made


def read_earlier(run: Run) -> Earlier | None:
    """Read what earlier runs deleted and compared; None if another server owns the namespace."""
    with at_once() as ask:
        checked_read, known_read = ask(read_checked, run.state), ask(read_deletions, run.state)
        is_owner = _is_owner(run)
    if not is_owner:
        return None
    checked, known = checked_read.result(), known_read.result()
    unread: list[str] = []
    # A missing record of the last check was removed with its run's folder, or was lost.
    if not checked.sweeps or checked.sweeps - {item.sweep for item in known.found}:
        unread, has_adopted = adopt_deletions(run, known)
        known = read_deletions(run.state) if has_adopted else known
    return Earlier(checked, known, unread)


def find_again(run: Run, runner: TaskRunner, record: StepRecord, earlier: Earlier) -> Found:
    """Compare the deletions of earlier runs with the live set of this complete mark."""
    if earlier.checked.problem:
        record.warn(f"{earlier.checked.problem}. All deletions are compared again")
    found = find_hits(run, runner, record, earlier.checked, earlier.known)
    found.unread += earlier.unread
    return found


def check_again(run: Run, record: StepRecord, checked: Checked, found: Found) -> AlarmError | None:
    """Restore deleted objects that are live in this mark, which has passed its witnesses, and raise alarms. Returns the
    error that this run must end with, or None."""
    judged = [
        _Judged(
            hits,
            explained(run, hits),
            _acknowledged(run.state, hits),
            [Restored(NOT_YET)] * hits.rows.num_rows,
        )
        for hits in found.hits
    ]
    raised = _raise_alarm(run, judged)
    unfinished = unite([_bring_back(run, item) for item in judged])
    if raised is not None:
        raised = _write_alarm(run, raised.alarm_id, raised.at, judged)
    _record(record, checked.run_id, found, judged)
    with at_once() as ask:
        opened = ask(alarms.open_alarms, run.state)
        write_checked(
            run.state,
            checked,
            run.folder.label,
            run.plan.run_id,
            run.store_now(),
            found.sweeps,
            found.live[~contains(unfinished, found.live)],
        )
    still_open = opened.result()
    if not still_open:
        return None
    error = alarms.alarm_error(f"run {run.plan.run_id}: earlier runs deleted live objects", still_open)
    if raised is None and run.plan.dry_run:
        record.warn(str(error))
        return None
    return error


def _is_owner(run: Run) -> bool:
    """Whether the run's server owns the namespace, or no server does yet. The live set of another server is no proof
    about the owner's deletions."""
    with at_once() as ask:
        environment = ask(run.client.environment)
        owner = read_owner(run.state)
    return owner is None or owner.includes(environment.result())


class _Judged(Struct):
    hits: Hits
    benign: npt.NDArray[np.bool_]  # mask of the rows explained by an expired commit
    known: npt.NDArray[np.bool_]  # mask of the rows with an acknowledged alarm
    became: list[Restored]  # the outcome of each row

    @property
    def alarming(self) -> npt.NDArray[np.bool_]:
        return ~self.benign & ~self.known

    def alarm_rows(self) -> pa.Table:
        """Rows of an alarm."""
        which = pa.array(self.alarming, pa.bool_())
        rows = self.hits.rows.filter(which)
        became = [item for item, mask in zip(self.became, self.alarming.tolist(), strict=True) if mask]
        return alarm_rows(self.hits.deletion.run_id, rows, became)


def _acknowledged(state: ObjectReader, hits: Hits) -> npt.NDArray[np.bool_]:
    found = np.zeros(hits.rows.num_rows, bool)
    for alarm in alarms.read_alarms(state):
        if alarm.acknowledged is None or hits.deletion.run_id not in alarm.deleted_by:
            continue
        rows = alarms.read_rows(state, alarm)
        rows = rows.filter(pc.equal(rows["deleted_by"], hits.deletion.run_id))
        found |= pc.is_in(hits.rows["address"], rows["address"].combine_chunks()).to_numpy(
            zero_copy_only=False
        )
    return found


def _raise_alarm(run: Run, judged: Sequence[_Judged]) -> Alarm | None:
    """Write the alarm before restoring: a restored object is no hit in a later check."""
    if not any(item.alarming.any() for item in judged):
        return None
    log.error("run %s: earlier runs deleted live objects", run.plan.run_id)
    return _write_alarm(run, run.folder.label, run.store_now(), judged)


def _write_alarm(run: Run, alarm_id: str, at: datetime, judged: Sequence[_Judged]) -> Alarm:
    rows = pa.concat_tables([item.alarm_rows() for item in judged])
    return alarms.write_alarm(run.state, alarm_id, run.plan.run_id, at, rows)


def _bring_back(run: Run, item: _Judged) -> Hashes:
    """Restore deletions of a run: benign hits with `restore_reused`, other hits always. Returns hashes to retry."""
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
        record.warn(f"deletions were not compared with the live set: {text}")
    if found.same_hash:
        record.warn(f"{found.same_hash:,} deleted addresses have the hash of a live one, but not its name")
    if found.unanswered:
        record.warn(
            f"branches did not answer {found.unanswered:,} requests about {found.asked:,} deleted objects that they"
            " may serve"
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
        f"{count:,} objects deleted by run {item.hits.deletion.run_id} are live again: an expired commit with them is"
        f" in use again, or the rules were removed, such as {example!r}; {back:,} were restored"
    )
    if back == count:
        return text
    why = next(
        row
        for row, mask in zip(item.became, benign, strict=True)
        if mask and row.outcome not in (RESTORED, THERE)
    )
    words = {GONE: "no copy and no version is left", _OFF: "restore_reused is off"}
    return f"{text}; the others were not: {why.message or words.get(why.outcome, why.outcome)}"


def adopt_deletions(run: Run, known: Deletions) -> tuple[list[str], bool]:
    """Write the missing records of earlier deleting runs from their folders. Returns a message for each unreadable
    run that may have deleted, and whether a record was written."""
    have = {item.run_id for item in known.found} | known.unread.keys()
    unread, has_adopted = list[str](), False
    for folder, plan in earlier_runs(run):
        if folder.run_id in have or (plan is not None and plan.dry_run) or not ledger.has_raw(folder):
            continue
        try:
            if plan is None:
                raise FormatError("its plan cannot be read")
            hashes = _deletable(folder)
        except FormatError as error:
            unread.append(f"run {folder.run_id} ({folder.uri}): {error}")
            continue
        if len(hashes):
            written = write_hashes(run.state, f"{plan.run_id}-{run.folder.label}", hashes)
            adopted = Deletion(
                run_id=plan.run_id, run_uri=folder.uri, at=plan.created_at, way=plan.undo.way, hashes=written
            )
            write_deletion(run.state, adopted)
            has_adopted = True
    return unread, has_adopted


def _deletable(folder: RunFolder) -> Hashes:
    found, guards = folder.read_output(SubtractOutput), folder.read_output(CheckLimitsOutput)
    if found is None or guards is None:
        raise FormatError(f"the candidates of {folder.uri} are missing")
    return unite([read_hashes(folder, part) for part in guards.may_go(found)])
