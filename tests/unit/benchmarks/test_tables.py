"""Tables go between their marks, and nowhere else."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.collect import ratios
from benchmarks.scale import need
from benchmarks.tables import STEPS, write
from benchmarks.through_airflow import first_start


def test_a_table_replaces_the_one_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- gc begin -->\nold\n<!-- gc end -->\nafter\n")
    write("gc", "new", page)
    write("gc", "newer", page)
    assert page.read_text() == "before\n<!-- gc begin -->\n\nnewer\n\n<!-- gc end -->\nafter\n"
    with pytest.raises(ValueError, match="lacks"):
        write("scale", "new", page)


def test_ratios_leave_the_start_of_the_session_out_of_the_steps() -> None:
    row = {"seconds": {"session": 5.0, "plan": 1.0, "subtract": 2.0}, "wall": 9.0}
    found = ratios(row, {"seconds": {"list": 1.0, "delete": 1.0}})
    assert (found["steps"], found["steps_to_bare"], found["wall_to_bare"]) == (3.0, 1.5, 4.5)


def test_the_first_task_begins_when_the_api_lets_it() -> None:
    log = (
        "2026-11-23T02:18:10.716Z [info     ] [DAG TEST] starting task_id=acquire_lease\n"
        "2026-11-23T02:18:17.336Z [info     ] Task started                   [airflow] hostname=vm\n"
        "2026-11-23T02:18:18.847Z [info     ] Task started                   [airflow] hostname=vm\n"
    )
    assert first_start(log) == datetime(2026, 11, 23, 2, 18, 17, 336000, tzinfo=UTC).timestamp()
    assert first_start("nothing") == 0


def test_the_need_of_larger_repositories_follows_the_growth_not_the_start() -> None:
    def row(millions: int) -> dict[str, object]:
        steps = {
            step: {"cpu_seconds": 100.0 + 36 * millions, "written_mib": 1024.0 * millions} for step in STEPS
        }
        return {"objects": millions * 1_000_000, "steps": steps}

    told = need([row(2), row(5)])  # type: ignore[list-item]
    # 4 spread steps and 5 others, 36 s a million each; 100,000 pages of 0.05 s, 8 at once
    assert f"| 100,000,000 | 2 | {(100 * (144 / 2 + 180) + 100_000 * 0.05 / 8) / 3600:.1f} | 900 |" in told
