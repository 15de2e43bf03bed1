"""The report of a clean run has sections about the whole repository."""

from __future__ import annotations

from tests.support.gc import make_world


def test_a_clean_run_reports_costs_of_objects_and_effects_of_other_rules() -> None:
    world = make_world(rules=30)
    world.commit("a/b", b"1")
    world.age(days=2)
    run = world.collected(tuning={"report_names_max": 100})
    found = run.folder.read_json("report.json")["sections"]
    assert [len(row) for row in found[1]["rows"]] == [3]
    assert (len(found), found[-1]["curve"] is not None) == (3, True)
    page = run.folder.writer.get("report.html").decode()
    assert "<svg" in page
