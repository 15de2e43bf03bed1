"""Tables go between their marks, and nowhere else."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.tables import write
from benchmarks.through_airflow import first_start


def test_a_table_replaces_the_one_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- gc begin -->\nold\n<!-- gc end -->\nafter\n")
    write("gc", "new", page)
    write("gc", "newer", page)
    assert page.read_text() == "before\n<!-- gc begin -->\n\nnewer\n\n<!-- gc end -->\nafter\n"
    with pytest.raises(ValueError, match="lacks"):
        write("scale", "new", page)


def test_the_first_task_begins_when_the_api_lets_it() -> None:
    log = (
        "2026-11-23T02:18:10.716Z [info     ] [DAG TEST] starting task_id=acquire_lease\n"
        "2026-11-23T02:18:17.336Z [info     ] Task started                   [airflow] hostname=vm\n"
        "2026-11-23T02:18:18.847Z [info     ] Task started                   [airflow] hostname=vm\n"
    )
    assert first_start(log) == datetime(2026, 11, 23, 2, 18, 17, 336000, tzinfo=UTC).timestamp()
    assert first_start("nothing") == 0
