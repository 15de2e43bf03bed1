"""A server words some keys decoded or without a query: what it shows is then not the key of the object."""

import pytest

from dredge.gc.check_limits import Canary, canaries
from dredge.gc.insight.why_answer import find_target
from dredge.lakefs.files.addresses import answer_readings
from dredge.runs.payload import PartInfo
from tests.support.gc import World, make_world, stage_again, summary_of

LIVE = ("data/odd/pct%20x", "data/odd/q?x=1")
WORDED = ("data/odd/pct x", "data/odd/q")


def odd_world(is_committed: bool = True) -> tuple[World, set[str]]:
    """Objects that live under odd keys, garbage under the keys that the server shows for them, and other garbage: the
    world, and what must stay."""
    world = make_world(rules=30)
    for key in LIVE:
        world.orphan(key, b"alive!")
        stage_again(world, key, path=key, size_bytes=6)
    if is_committed:
        world.lake.commit()
    for number, key in enumerate(WORDED):
        world.orphan(key, b"garbage" + b"." * number)
    world.orphan("data/slice/orphan", b"other garbage")
    world.age(days=2)
    assert {stats.address.rpartition("/odd/")[2] for stats in world.client.objects("lake", "main")} == {
        "pct x",
        "q",
    }
    return world, {*LIVE, *WORDED}


def test_garbage_under_an_address_that_the_server_shows_for_another_object_is_held_and_the_rest_goes() -> (
    None
):
    world, kept = odd_world()
    run = world.plan()
    assert world.run(run).status == "success"
    assert world.data() == kept
    guards = summary_of(run, "check_limits")
    (held,) = [item for item in guards.details["held"] if item["code"] == "ambiguous_address"]
    assert (held["objects"], held["bytes"]) == (2, 15)
    assert {item["address"] for item in held["examples"]} == {*WORDED}
    assert guards.counts["deletable_objects"] == 1
    verified = summary_of(run, "verify")
    assert verified.counts["living_objects_missing"] == 0
    groups = summary_of(run, "bulk_delete").details["groups"]
    assert {(group["code"], group["objects"]) for group in groups} == {("ambiguous_address", 2), ("", 1)}


def test_every_reading_of_a_staged_address_counts_as_live() -> None:
    world, kept = odd_world(is_committed=False)
    run = world.plan()
    assert world.run(run).status == "success"
    assert world.data() >= kept
    assert "data/slice/orphan" not in world.data()
    assert summary_of(run, "verify").counts["living_objects_missing"] == 0


def test_a_canary_is_ambiguous_only_where_the_other_object_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both would go, one of them lives and is lost: that stops the run."""
    world, _ = odd_world()
    run = world.plan()
    dead = [
        Canary(
            WORDED[0], "main", "p", answer_readings(f"{run.plan.namespace}/{WORDED[0]}", run.plan.namespace)
        )
    ]
    doomed = {WORDED[0]}

    def among(_run: object, found: list[Canary], _parts: list[PartInfo]) -> list[Canary]:
        return [canary for canary in found if canary.address in doomed]

    monkeypatch.setattr(canaries, "among", among)
    assert canaries.ambiguous(run, dead, []) == dead
    doomed.add(LIVE[0])
    assert canaries.ambiguous(run, dead, []) == []


def test_an_object_that_was_deleted_under_such_an_address_is_no_living_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The guards took other canaries, and verify takes this one."""
    world, _ = odd_world()
    run = world.plan()
    monkeypatch.setattr("dredge.gc.check_limits.canaries.sample", lambda *_, **__: [])
    assert world.run(run).status == "success"
    assert world.data() == {*LIVE}
    assert summary_of(run, "verify").counts["living_objects_deleted"] == 0


@pytest.mark.parametrize("key", LIVE)
def test_why_asks_about_the_object_that_the_path_has(key: str) -> None:
    world, _ = odd_world()
    assert find_target(world.client, f"lakefs://lake/main/{key}").address == key


def test_an_answer_may_mean_a_key_that_is_encoded() -> None:
    assert answer_readings("s3://b/lake/data/a b", "s3://b/lake") == ("data/a b", "data/a%20b")
    assert answer_readings("s3://b/lake/data/ab=1", "s3://b/lake") == ("data/ab=1",)
    assert set(answer_readings("s3://b/lake/data/a%20b", "s3://b/lake")) >= {"data/a b", "data/a%20b"}
