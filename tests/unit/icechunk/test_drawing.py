"""A plan can be looked at: as text in a terminal, and in a page."""

from __future__ import annotations

import pytest

from dredge.icechunk.expiration import drawing
from dredge.icechunk.expiration.drawing import draw_plan, plan_page
from dredge.icechunk.expiration.plan import ExpirationPlan, plan_expiration
from dredge.icechunk.format.repo_info import SnapshotEntry
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.history import History
from tests.support.icechunk import graph_of, history_of, micros_of, scenarios


def sample(rule: str = "document") -> ExpirationPlan:
    return plan_expiration(history_of(graph_of(scenarios()[0]), 1), instant(micros_of(7.5)), rule=rule)


def shape(text: str) -> list[str]:
    return [
        f"{line.split('  ')[0]} {line[line.find('[') :]}" if "[" in line else line.split("  ")[0]
        for line in text.splitlines()
    ]


def test_documents_sample_is_drawn_before_and_after() -> None:
    before, after = draw_plan(sample()).split("\n\nafter\n")
    assert shape(before) == [
        "before",
        "● 0",
        "○ 1",
        "○ 2",
        "├─○ 3 [tag tag1]",
        "│ × 6",
        "│ ├─× 7",
        "│ │ ├─● 8 [qa]  gets the parent 0",
        "│ │ ● 9 [test]  gets the parent 0",
        "│ ● 10",
        "│ ● 11 [develop]",
        "○ 4",
        "○ 5 [tag tag2]",
        "● 12",
        "● 13",
        "● 14 [main]",
    ]
    assert shape(after) == [
        "● 0",
        "├─○ 1",
        "│ ○ 2",
        "│ ├─○ 3 [tag tag1]",
        "│ ○ 4",
        "│ ○ 5 [tag tag2]",
        "├─● 8 [qa]",
        "├─● 9 [test]",
        "├─● 10",
        "│ ● 11 [develop]",
        "● 12",
        "● 13",
        "● 14 [main]",
    ]


def test_page_of_a_plan_escapes_names_and_cuts_long_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "ROWS_MAX", 2)
    entries = {"0": SnapshotEntry("0", None, 1, "<b>&"), "1": SnapshotEntry("1", "0", 2, '"')}
    branches = {"main": "1", "<script>": "1", "qa": "1", "test": "1"}
    shown = plan_page("s3://b/<x>", plan_expiration(History(1, entries, branches, {}), instant(0)))
    assert "<title>Expiration plan of s3://b/&lt;x&gt;</title>" in shown
    assert "<script>" not in shown
    assert shown.count("&lt;script&gt;") == 1  # the refs; the history is cut
    assert "<p>2 more are in <code>plan.json</code>.</p>" in shown
    assert "<p>None.</p>" in shown
