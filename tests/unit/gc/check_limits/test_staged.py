"""Nothing staged, where the run before found plenty: branches are asked whether that is so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import NotFoundError
from dredge.gc.check_limits.guards import staging_not_gone
from dredge.lakefs import Change
from dredge.runs.limits import Finding

PLENTY = 5
OURS, OTHERS = "mem://lake/repo/data/a", "mem://elsewhere/a"


class Server:
    """Branches with what each shows as uncommitted, and where a path of any of them lies.

    Args:
        changes: of each branch; None when it is gone.
        addresses: by path; without one the path is gone.
    """

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
