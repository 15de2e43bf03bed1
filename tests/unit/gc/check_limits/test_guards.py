"""Guards are functions in one list; one that says no stops the run, and the report has all of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from msgspec import structs

from dredge.errors import AwaitingApprovalError, NotFoundError, RefusedError
from dredge.gc.check_limits import guards
from dredge.gc.check_limits.guards import Check, must, staging_not_gone
from dredge.gc.run import RUNS, make_lease
from dredge.hashing import hash64
from dredge.lakefs import Change, Repository
from dredge.runs.limits import Finding
from dredge.runs.run import release_lease
from dredge.sets.hashes import unite, write_hashes
from dredge.xid import new_descending_xid
from tests.support.checks import check_of, marked
from tests.support.gc import busy_world, summary_of

RULES = [
    "listing_complete",
    "staging_complete",
    "order",
    "live_not_empty",
    "committed_not_empty",
    "staging_not_gone",
    "nothing_nested",
    "namespaces_apart",
    "same_namespace",
    "lease_held",
    "no_other_collector",
    "canaries",
    "identical_content",
]
LIMITS = ["max_objects", "max_bytes", "max_percent"]


def says(rule: str, holds: bool) -> Callable[[Check], Finding]:
    """A guard that the package does not have."""
    return lambda _: must(rule, holds, 1, None, "was looked at")


def test_every_guard_is_asked_and_limits_follow() -> None:
    world, kept, _ = busy_world()
    context = world.collected()
    rules = [item["rule"] for item in context.folder.read_json("guard.json")["findings"]]
    assert rules == [*RULES, *LIMITS]
    assert {item["verdict"] for item in summary_of(context, "check_limits").details["findings"]} == {"passed"}
    assert world.data() == kept


def test_an_exceeded_limit_awaits_approval() -> None:
    world, kept, gone = busy_world(max_delete_objects=0)
    context = world.plan()
    with pytest.raises(AwaitingApprovalError):
        world.run(context)
    assert summary_of(context, "check_limits").details["verdict"] == "awaiting_approval"
    incomplete = context.folder.read_incomplete("approve")
    assert incomplete is not None
    assert incomplete.status == "awaiting_approval"
    assert world.data() == kept | gone


def test_an_exceeded_limit_refuses_a_run_that_may_ask_nobody() -> None:
    world, kept, gone = busy_world(max_delete_objects=0, approval="never")
    context = world.plan()
    with pytest.raises(RefusedError, match="max_objects"):
        world.run(context)
    incomplete = context.folder.read_incomplete("check_limits")
    assert incomplete is not None
    assert (incomplete.status, incomplete.details["verdict"]) == ("refused", "awaiting_approval")
    assert world.data() == kept | gone


# Each proof is demanded: without it the run is refused.


@pytest.mark.parametrize(
    ("proof", "step", "counts"),
    [
        (guards.listing_complete, "slice_listing", {"old_objects": 1}),
        (guards.listing_complete, "subtract", {"listed_objects": 1}),
        (guards.staging_complete, "mark_uncommitted", {"rows": 1_000}),
        (guards.staging_complete, "mark_uncommitted", {"branches": 0}),
        (guards.live_not_empty, "list_committed", {"live_addresses": 0}),
        (guards.committed_not_empty, "list_committed", {"ranges": 0, "metaranges": 2}),
    ],
)
def test_figures_that_do_not_add_up_refuse_the_run(
    proof: Callable[[Check], Finding], step: str, counts: dict[str, int]
) -> None:
    _, run = marked()
    finding = proof(check_of(run, **{step: counts}))
    assert (finding.rule, finding.verdict) == (proof.__name__, "refused")


def test_nothing_live_is_right_only_where_nothing_of_the_repository_is_committed_or_staged() -> None:
    _, run = marked()

    def verdict(live: int, rows: int, outside: int, staged: int) -> str:
        committed = {"live_addresses": live, "range_rows": rows, "outside_rows": outside}
        check = check_of(run, list_committed=committed, mark_uncommitted={"rows": staged})
        return guards.live_not_empty(check).verdict

    assert {(1, 1, 0, 0), (1, 0, 0, 1), (0, 0, 0, 0), (0, 2, 2, 0)} == {
        counts
        for counts in ((1, 1, 0, 0), (1, 0, 0, 1), (0, 0, 0, 0), (0, 2, 2, 0), (0, 1, 0, 0), (0, 0, 0, 1))
        if verdict(*counts) == "passed"
    }


def test_a_deletion_of_the_last_object_is_no_reason_to_stop() -> None:
    _, run = marked()
    counts = {"ranges": 0, "metaranges": 1}
    assert guards.committed_not_empty(check_of(run, list_committed=counts)).verdict == "passed"


@pytest.mark.parametrize("step", ["slice_listing", "mark_uncommitted", "list_committed"])
def test_a_result_that_changed_after_it_was_read_refuses_the_run(step: str) -> None:
    _, run = marked()
    assert guards.order(check_of(run)).verdict == "passed"
    finding = guards.order(check_of(run, **{step: {"other": 1}}))
    assert finding.verdict == "refused"
    assert step in finding.text


def test_a_plan_that_changed_refuses_the_run() -> None:
    _, run = marked()
    plan = run.folder.read_json("plan.json")
    run.folder.write_json("plan.json", {**plan, "cutoff": "2030-01-01T00:00:00+00:00"})
    assert guards.order(check_of(run)).verdict == "refused"


# Right before a run may delete, the world is asked again: server, lease, other collectors.


@pytest.mark.parametrize(("folder", "verdict"), [("", "refused"), ("/data/inner", "passed")])
def test_a_repository_that_came_into_the_namespace_meanwhile_refuses_the_run_unless_it_has_a_folder(
    folder: str, verdict: str
) -> None:
    world, run = marked()
    (ours,) = world.client.repositories()
    other = Repository("other", f"{ours.namespace}{folder}", "main", False)
    world.client.repositories = lambda: [ours, other]  # type: ignore[method-assign]
    check = check_of(run)
    finding = guards.namespaces_apart(check)
    assert (finding.rule, finding.verdict) == ("namespaces_apart", verdict)
    assert ("other" in finding.text) is (verdict == "refused")
    assert any("other" in text for text in check.record.warnings) is (verdict == "passed")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_repository_that_was_made_anew_elsewhere_refuses_the_run(is_there: bool) -> None:
    world, run = marked()
    (ours,) = world.client.repositories()
    moved = [structs.replace(ours, namespace="memory://elsewhere/lake")] if is_there else []
    world.client.repositories = lambda: moved  # type: ignore[method-assign]
    finding = guards.same_namespace(check_of(run))
    assert (finding.rule, finding.verdict) == ("same_namespace", "refused")
    assert ("memory://elsewhere/lake" in finding.text) is is_there


def test_a_lease_that_somebody_else_took_refuses_the_run() -> None:
    _, run = marked()
    release_lease(run)
    make_lease(run.state, 60).acquire("somebody else")
    finding = guards.lease_held(check_of(run))
    assert (finding.rule, finding.verdict) == ("lease_held", "refused")


def test_a_run_of_another_collector_refuses_the_run_and_is_named() -> None:
    world, run = marked()
    foreign = new_descending_xid(world.lake.clock())
    world.lake.objects.put(f"{RUNS}/{foreign}/summary.json", b"{}")
    finding = guards.no_other_collector(check_of(run))
    assert (finding.rule, finding.verdict, finding.figure) == ("no_other_collector", "refused", 1)
    assert foreign in finding.text


def test_a_candidate_that_a_branch_shows_refuses_the_run() -> None:
    """Whatever list it is deleted from: those that nothing held, or those whose hold was lifted."""
    world, run = marked()
    shown = sorted(world.served().values())[0]
    check = check_of(run)
    assert shown not in str(check.candidates.reasons)
    hashes = unite([hash64(pa.array([shown]))])
    written = write_hashes(run.folder, "check_limits/cleared.u64", hashes)
    doomed = replace(check, doomed=[*check.candidates.hashes, written])
    finding = guards.canaries_stay(doomed)
    assert (finding.rule, finding.verdict) == ("canaries", "refused")
    assert repr(shown) in finding.text


# Nothing staged, where the run before found plenty: branches are asked whether that is so.


PLENTY = 5
OURS, OTHERS = "mem://lake/repo/data/a", "mem://elsewhere/a"


class Server:
    """Branches with what each shows as uncommitted (None: it is gone), and the addresses of paths that are there."""

    def __init__(
        self, changes: Mapping[str, Sequence[Change] | None], addresses: Mapping[str, str] | None = None
    ) -> None:
        self._changes = changes
        self._addresses = addresses or {}
        self.asked: list[str] = []
        self.stats = 0

    def branches(self, _repository: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(id=name) for name in self._changes]

    def changes(self, _repository: str, branch: str) -> Sequence[Change]:
        self.asked.append(branch)
        found = self._changes[branch]
        if found is None:
            raise NotFoundError("branch not found")
        return found

    def stat(self, _repository: str, _branch: str, path: str) -> SimpleNamespace:
        self.stats += 1
        if path not in self._addresses:
            raise NotFoundError("entry not found")
        return SimpleNamespace(address=self._addresses[path])


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Any:
    def find(
        server: Server, now: int = 0, before: int | None = PLENTY, run_id: str = "r", branches: int = 32
    ) -> Finding:
        earlier = None if before is None else SimpleNamespace(counts={"rows": before})
        monkeypatch.setattr("dredge.gc.check_limits.guards.previous", lambda *_: earlier)
        safety = SimpleNamespace(staged_rows_plenty=PLENTY, canary_branches=branches)
        plan = SimpleNamespace(
            run_id=run_id,
            repository="repo",
            namespace="mem://lake/repo",
            config=SimpleNamespace(safety=safety),
        )
        run = SimpleNamespace(client=server, plan=plan)
        check: Any = SimpleNamespace(run=run, staged=SimpleNamespace(counts={"rows": now}))
        return staging_not_gone(check)

    return find


def test_a_branch_that_shows_what_the_scan_did_not_find_refuses_the_run(find: Any) -> None:
    finding = find(Server({"one": [], "two": [Change("a", "changed")]}, {"a": OURS}))
    assert (finding.verdict, finding.figure, finding.limit) == ("refused", 0, PLENTY)
    assert "two" in finding.text


@pytest.mark.parametrize("changes", [[], None, [Change("a", "removed")], [Change("b", "added")]], ids=str)
def test_staging_that_was_committed_or_dropped_is_no_reason_to_stop(
    find: Any, changes: list[Change] | None
) -> None:
    """What is removed has no object, and what was imported lies elsewhere."""
    server = Server({"main": changes}, {"a": OURS, "b": OTHERS})
    assert find(server).verdict == "passed"
    assert server.asked == ["main"]
