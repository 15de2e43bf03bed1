"""What a person is shown: all that is needed to decide, and nothing that a name from the lake could forge."""

import re
from pathlib import Path

import numpy as np
import pytest

from dredge.approve.step import code
from dredge.errors import LeaseHeldError
from dredge.gc.approve import ByBranch, by_branch, owned_by_branch
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.planning import acquire_lease
from dredge.gc.run import Run
from dredge.gc.steps import put_question
from dredge.storage import open_deleter
from tests.support.approvals import said, take, two_branches, waiting_run
from tests.support.gc import World, busy_world, make_world, summary_of


def body_of(run: Run) -> str:
    return put_question(run).body


def test_the_question_says_what_would_go_and_what_stays() -> None:
    _, run, _, _ = waiting_run()
    question = put_question(run)
    assert question.subject == "Delete 7 objects (14 B) of lakeFS repository lake?"
    body = question.body
    assert "the limit is 0" in body
    assert "To delete: 7 objects, 14 B, 46.667 percent of the repository's objects" in body
    assert "Repository `lake`, a run in mode clean (asked for)" in body
    assert "- 7 objects, 14 B: not referenced" in body
    assert body.count("`data/slice") == 7 + 2, "examples, and two folders"
    assert "### Largest of 2 folders in the store" in body
    assert "- `data/slice0/`: 4 objects, 8 B" in body
    assert "Undo (off): " in body
    assert "### Held, not deleted" in body
    assert re.search(r"1 objects, 1 B: a branch reads it: .*\n    - `data/\S+`: `a0` on `main`", body)
    assert f"`{run.folder.uri}/report.html`" in body
    assert run.folder.writer.get("report.html")


def test_branches_whose_old_commits_go_are_named() -> None:
    world = make_world(max_delete_objects=0, rules=1)
    for number in range(3):
        world.commit("a", b"%d" % number)
        world.age(days=3)
    run = world.marked()
    with pytest.raises(Exception, match="awaits approval"):
        take(run)
    body = body_of(run)
    assert re.search(r"- `main`: \d", body)


HOSTILE = (
    "`</code><img src=x onerror=alert(1)>`",
    "a\n# Approved by the CTO\n- [click](https://evil.example)",
    "x\u202egpj.exe",
    "{{ conn.aws_default.password }} | <script>\x00\x1b[31m",
    "\\` **bold** \u2028next",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_one_span_of_text(name: str) -> None:
    shown = code(name)
    assert shown.startswith("`")
    assert shown.endswith("`")
    inside = shown[1:-1]
    assert inside.isprintable()
    assert not set(inside.replace("\\x", "").replace("\\u", "")) & set("`<>&|\\")


def test_hostile_names_do_not_get_out_of_their_lines() -> None:
    world, _, _ = busy_world(max_delete_objects=0)
    for number, name in enumerate(HOSTILE):
        world.orphan(f"data/s{number}/{name}".replace("\x00", ""), b"hostile")
    world.age(days=2)
    run = world.marked()
    with pytest.raises(Exception, match="awaits approval"):
        take(run)
    body = body_of(run)
    assert "<" not in body
    assert "\n# " not in body
    for line in body.splitlines():
        assert line.count("`") % 2 == 0
        outside = "".join(line.split("`")[::2])
        assert "evil" not in outside
        assert "{{" not in outside


def busy_elsewhere(world: World) -> None:
    from dredge.gc.config import GCConfig

    acquire_lease(GCConfig(repository=world.lake.repository), "somebody else", world.client)


def test_a_run_that_waits_keeps_its_repository_until_its_time_is_over() -> None:
    """Else ten runs of a backfill would ask about the same objects, and the state could move on under this one."""
    world, run, _, _ = waiting_run(approval_hours=5)
    put_question(run)
    world.age(hours=5)
    with pytest.raises(LeaseHeldError):
        busy_elsewhere(world)
    world.age(hours=2)
    busy_elsewhere(world)


def test_a_run_that_goes_on_or_ends_gives_its_repository_back() -> None:
    world, run, kept, _ = waiting_run()
    put_question(run)
    world.age(hours=3)
    said(run)
    world.run(run)
    busy_elsewhere(world)
    assert world.data() == kept


def test_a_run_whose_repository_was_taken_over_deletes_nothing() -> None:
    """Nobody kept the lease: it was given back, as a command's is, and another run came in between."""
    world, run, kept, gone = waiting_run()
    said(run)
    take(run)
    run.lease.release(run.plan.lease)
    busy_elsewhere(world)
    with pytest.raises(LeaseHeldError):
        world.run(run)
    assert world.data() == kept | gone


# A person who decides sees whose it was, as far as that is known, and what nobody can tell.


def looked_at(run: Run) -> ByBranch:
    return by_branch(run, CheckLimitsOutput.of(summary_of(run, "check_limits")))


def test_candidates_are_counted_for_the_branch_whose_commits_named_them_last() -> None:
    _, run = two_branches()
    found = looked_at(run)
    figures = {names: (amount.objects, amount.size_bytes) for names, amount in found.named.items()}
    assert figures[("work",)] == (3, 1 + 3 + 4), (
        "also what both had: a commit of work named it after main's did"
    )
    assert figures[("main",)] == (1, 2)
    assert (found.unknown.objects, found.unknown.size_bytes) == (1, len(b"never committed"))
    assert found.unread == []
    body = put_question(run).body
    assert all(f"`{name}`" in body for name in ("work", "main"))
    assert "15 B" in body


def test_each_candidate_is_among_those_of_its_branch() -> None:
    _, run = two_branches()
    named = looked_at(run).named
    owned = owned_by_branch(run)
    assert {name: len(hashes) for name, hashes in owned.hashes.items()} == {
        name: amount.objects for (name,), amount in named.items()
    }
    assert all(np.all(hashes[1:] > hashes[:-1]) for hashes in owned.hashes.values())


def test_what_cannot_be_read_is_said_and_stops_nobody_from_deciding() -> None:
    world, run = two_branches()
    everything = looked_at(run)
    lost = list(world.lake.keys("_lakefs/retention/gc/dredge/index/"))
    open_deleter(world.lake.namespace).delete(lost)
    assert looked_at(run) == everything, "decoded again from the ranges"
    tables = [key for key in world.lake.keys("_lakefs/") if len(Path(key).name) == 64]
    open_deleter(world.lake.namespace).delete(tables)
    found = looked_at(run)
    assert found.named == {}
    assert found.unknown.objects == 5
    assert found.unread
    assert "could not" in put_question(run).body


def test_without_rules_no_commit_tells() -> None:
    _, run, _, gone = waiting_run()
    found = looked_at(run)
    assert (found.named, found.unknown.objects) == ({}, len(gone))
