"""The report of a clean run has sections about the whole repository."""

from tests.support.gc import make_world


def test_a_clean_run_reports_costs_of_objects_and_effects_of_other_rules() -> None:
    world = make_world(rules=30)
    world.commit("a/b", b"1")
    world.age(days=2)
    run = world.collected(tuning={"report_names_max": 100})
    found = run.folder.read_json("report.json")["sections"]
    costs, alone, rules = found
    assert (costs["rows"][0][:2], alone["rows"][0][:2]) == (["heads", "1"], ["main", "1"])
    assert rules["curve"] is not None
    page = run.folder.writer.get("report.html").decode()
    assert "<svg" in page
