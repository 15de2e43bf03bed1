"""Right before a run may delete, the world is asked again: server, lease, other collectors."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from dredge.gc.check_limits import guards
from dredge.gc.planning import release_lease
from dredge.gc.run import make_lease
from dredge.hashing import hash64
from dredge.lakefs import Repository
from dredge.sets.hashes import unite, write_hashes
from tests.support.checks import check_of, marked


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
    moved = [replace(ours, namespace="memory://elsewhere/lake")] if is_there else []
    world.client.repositories = lambda: moved  # type: ignore[method-assign]
    finding = guards.same_namespace(check_of(run))
    assert (finding.rule, finding.verdict) == ("same_namespace", "refused")


def test_a_lease_that_somebody_else_took_refuses_the_run() -> None:
    _, run = marked()
    release_lease(run)
    make_lease(run.state, 60).acquire("somebody else")
    finding = guards.lease_held(check_of(run))
    assert (finding.rule, finding.verdict) == ("lease_held", "refused")


def test_a_run_of_another_collector_refuses_the_run_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _, run = marked()
    monkeypatch.setattr(guards, "foreign_runs", lambda _: ["cg7", "cg8"])
    finding = guards.no_other_collector(check_of(run))
    assert (finding.rule, finding.verdict, finding.figure) == ("no_other_collector", "refused", 2)
    assert "cg7, cg8" in finding.text


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
