"""Settle: after a sweep, one row for each object says what became of it, and the figures follow from these rows."""

from __future__ import annotations

from collections import Counter

from dredge.errors import DredgeError
from dredge.icechunk.collection.kinds import FOLDERS
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.run import Run
from dredge.runs import ledger
from dredge.runs.failures import not_deleted
from dredge.runs.steps import StepRecord
from dredge.undo.protecting import NOT_COPIED, words_of_not_copied

_FAILURES_SHOWN = 20


def settle(run: Run, record: StepRecord) -> DredgeError | None:
    """Write the settled ledger, and note its figures.

    Args:
        run: whose ledger it is.
        record: of the sweep.

    Returns:
        The error for objects that could not be deleted; None when there are none.
    """
    totals: Counter[str] = Counter()
    failures: list[dict[str, str | None]] = []
    codes: set[str] = set()
    not_copied = 0
    candidates = record.input(ListCandidatesOutput)
    for kind in FOLDERS:
        for part in candidates.candidates(kind):
            rows = ledger.best(ledger.read_raw(run.folder, ledger.stem_of(part)))
            found = ledger.settle_rows(
                run.folder, part, rows, ["outcome", "code"], _FAILURES_SHOWN - len(failures)
            )
            record.parts.append(found.part)
            failures += found.failures
            # Of all that failed, not only of those that are named: one that may pass is worth another try.
            codes |= {str(group["code"]) for group in found.groups if group["outcome"] == ledger.FAILED}
            for group in found.groups:
                not_copied += group["objects"] if group["code"] == NOT_COPIED else 0
                for unit in ("objects", "bytes"):
                    totals[f"{kind}_{group['outcome']}_{unit}"] += group[unit]
    record.counts.update(totals)
    for outcome in ledger.OUTCOMES:
        for unit in ("objects", "bytes"):
            record.counts[f"{outcome}_{unit}"] = sum(totals[f"{kind}_{outcome}_{unit}"] for kind in FOLDERS)
    if not_copied:
        record.warn(words_of_not_copied(not_copied))
    if not failures:
        return None
    record.details["failures"] = failures
    text = (
        f"run {run.plan.run_id}: {record.counts['failed_objects']:,} objects could not be deleted"
        f" ({', '.join(sorted(codes))}); kinds after theirs were not begun. What was deleted is in the ledger."
    )
    return not_deleted(text, codes, record.counts["deleted_objects"])
