"""What a scan and a clean give back."""

from __future__ import annotations

from dredge.graveler import xid
from dredge.trash.apply import Outcome
from dredge.trash.deleted import DeletedOutcome
from dredge.trash.finding import TrashFinding
from dredge.trash.plan import TrashPlan
from dredge.trash.report import deleted_row, finding_row
from dredge.trash.results import CleanReport, ScanReport
from tests.support.kv_world import DAY, START


def test_a_report_adds_up_what_went_of_either_kind() -> None:
    finding = TrashFinding(b"p", None, "staging-orphan", "trash", "why", 2, 10, "d", None, START)
    plan = TrashPlan("run", "memory://", START + DAY, (finding,), 4)
    entry = "repo/lake/" + xid.new_xid(START)
    scanned = ScanReport(plan, (finding,), 1)
    report = CleanReport(
        scanned,
        "partial",
        (Outcome(finding, "deleted", 2),),
        (DeletedOutcome(entry, "cleaned", 3), DeletedOutcome(entry, "skipped", 5)),
        "words",
    )
    assert report.rows_removed == 2 + 4 + 5
    told = report.to_report()
    assert told == scanned.to_report() | {
        "status": "partial",
        "message": "words",
        "rows_removed": 11,
        "outcomes": [finding_row(finding, plan.made) | {"fate": "deleted", "rows_deleted": 2}],
        "deleted_repositories": [deleted_row(outcome) for outcome in report.deleted],
    }
    whole = report.to_report()
    assert whole.items() >= told.items()
    assert whole["findings"] == [finding_row(finding, plan.made)]
    assert whole["summary"]
    assert scanned.figures()["trash_rows"] == 2
