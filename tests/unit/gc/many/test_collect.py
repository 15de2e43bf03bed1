"""Repositories collected one after the other: one that fails stops no other, and each has its own run."""

import json
from datetime import UTC, datetime
from typing import Any

from dredge.gc import steps
from dredge.gc.config import GCConfig
from dredge.runs.report import (
    Outcome,
    collect_each,
    left_out,
    outcome_of,
    save_summary,
    summarize,
    summary_lines,
)
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader
from tests.support.gc import World, make_world

NOW = datetime(2026, 1, 5, tzinfo=UTC)


def three() -> World:
    """A server with three repositories, each with one piece of garbage."""
    world = make_world()
    store = world.lake.namespace.rpartition("/")[0]
    for name in ("pond", "sea"):
        world.lake.catalog.repositories.create_repository(name, f"{store}/{name}")
    for name in ("lake", "pond", "sea"):
        world.lake.catalog.objects.upload_object(name, "main", "kept", b"kept")
        world.lake.open_namespace(f"{store}/{name}").put("data/orphan", b"orphan")
    world.age(days=2)
    return world


def collected(world: World, *names: str, at_once: int = 1, **settings: Any) -> list[Outcome]:
    def config_of(name: str) -> GCConfig:
        return GCConfig.from_params(
            {
                "repository": name,
                "dry_run": False,
                "unsafe_grace_seconds": 0,
                "max_delete_percent": None,
                **settings,
            }
        )

    where: dict[str, Any] = {"client": world.client, "clock": world.lake.clock}
    outcomes = collect_each(
        names,
        lambda name: steps.plan_run(config_of(name), **where).run_uri,
        lambda run_uri: steps.to_its_end(steps.Run.open(run_uri, **where), LocalRunner()),
        at_once,
    )
    return list(outcomes)


def keys(world: World, name: str) -> list[str]:
    reader = open_reader(f"{world.lake.namespace.rpartition('/')[0]}/{name}")
    return [key for batch in reader.list("data/") for key in batch["key"].to_pylist()]


def test_each_repository_loses_its_garbage_and_nothing_else() -> None:
    world = three()
    outcomes = collected(world, "lake", "pond", "sea", at_once=2)
    assert [item.repository for item in outcomes] == ["lake", "pond", "sea"]
    assert [(item.outcome, item.deleted_objects, item.deleted_bytes) for item in outcomes] == [
        ("success", 1, 6)
    ] * 3
    for name in ("lake", "pond", "sea"):
        left = keys(world, name)
        assert "data/orphan" not in left
        assert len(left) == 1


def test_a_dry_run_of_all_deletes_nothing() -> None:
    world = three()
    outcomes = collected(world, "lake", "pond", dry_run=True)
    assert [(item.outcome, item.found_objects, item.deleted_objects) for item in outcomes] == [
        ("dry_run", 1, 0)
    ] * 2
    assert "data/orphan" in keys(world, "lake")


def test_one_that_fails_stops_no_other() -> None:
    world = three()
    world.lake.objects.put("_lakefs/retention/gc/dredge/lease.json", b"not a lease")
    outcomes = collected(world, "lake", "none", "sea")
    assert [item.outcome for item in outcomes] == ["failed", "failed", "success"]
    assert "lease" in outcomes[0].why
    assert "not found" in outcomes[1].why
    assert "data/orphan" in keys(world, "lake")


def test_one_beyond_its_limits_is_told_of_with_its_report() -> None:
    world = three()
    outcome = collected(world, "lake", max_delete_objects=0)[0]
    assert outcome.outcome != "success"
    assert outcome.why
    assert outcome.report_uri.startswith(f"{world.lake.namespace}/_lakefs/retention/gc/unified/")
    assert "data/orphan" in keys(world, "lake")


def test_a_defect_in_one_run_stops_no_other() -> None:
    world = three()

    def stumble(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "repository" and arguments == ("lake",):
            raise ZeroDivisionError("oops")

    world.client.before = stumble
    outcomes = collected(world, "lake", "sea")
    assert [item.outcome for item in outcomes] == ["failed", "success"]
    assert "ZeroDivisionError" in outcomes[0].why


def test_a_run_whose_report_cannot_be_read_is_never_taken_for_a_good_one() -> None:
    outcome = outcome_of("lake", "memory://nothing/here")
    assert (outcome.outcome, outcome.is_good) == ("failed", False)
    assert not outcome_of("lake", "", "no key pair").is_good


def test_the_summary_counts_all_and_shows_first_what_needs_a_look() -> None:
    world = three()
    outcomes = [
        *collected(world, "lake", "pond"),
        outcome_of("none", "", "<gone>"),
        left_out("sea", "asleep"),
    ]
    summary = summarize(outcomes, NOW)
    assert [row["repository"] for row in summary["repositories"]] == ["none", "lake", "pond", "sea"]
    assert summary["counts"] == {
        "repositories": 4,
        "collected_repositories": 2,
        "dry_repositories": 0,
        "left_out_repositories": 1,
        "failed_repositories": 1,
        "found_objects": 2,
        "found_bytes": 12,
        "deleted_objects": 2,
        "deleted_bytes": 12,
    }
    page = save_summary(summary, "memory://summaries", "first")
    reader = open_reader("memory://summaries/summaries")
    assert page == "memory://summaries/summaries/first.html"
    text = reader.get("first.html").decode()
    assert "&lt;gone&gt;" in text
    assert json.loads(reader.get("first.json")) == summary
    lines = list(summary_lines(summary))
    assert any("asleep" in line for line in lines)
