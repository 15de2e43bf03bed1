"""A lakeFS server with a handful of commits, and a run reading the active ones."""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from dredge.errors import NotFoundError
from dredge.gc.config import AUTO
from dredge.gc.run import Run
from dredge.lakefs import Commit, PreparedCommits, Ref, Rules

NOW = datetime(2026, 3, 1, tzinfo=UTC)
RULES = Rules(10)


def commit(name: str, *parents: str, days: float) -> Commit:
    return Commit(name, parents, NOW - timedelta(days=days), f"m-{name}")


GRAPH = {
    item.id: item
    for item in (
        commit("a", days=90),
        commit("b", "a", days=60),
        commit("c", "b", days=20),
        commit("d", "c", days=5),
        commit("t", "a", days=50),
    )
}
"""a <- b <- c <- d, and t beside them. By the rules c and d are active."""
EXTRA = {"x": commit("x", days=80), "y": commit("y", "x", days=5)}
"""A line without a ref: both are active if its commits are known."""
MAIN, TOPIC, TAG = Ref("main", "d"), Ref("topic", "t"), Ref("v1", "b")


class Policy:
    """Keeps commits by rules; records the branches in its calls."""

    def __init__(self, *keeps: tuple[str, set[str], tuple[str, ...]]) -> None:
        self._keeps = keeps
        self.asked: list[list[Ref]] = []

    def keeps(self, branches: Collection[Ref], _graph: object) -> list[Any]:
        self.asked.append([*branches])
        return [
            SimpleNamespace(
                rule=SimpleNamespace(name=name, last=3, paths=paths),
                branches=["main"] * bool(commits),
                commits=frozenset(commits),
            )
            for name, commits, paths in self._keeps
        ]


class Server:
    def __init__(
        self, commits: dict[str, Commit] = GRAPH, rules: Rules | None = RULES, listed: bytes | None = None
    ) -> None:
        self.commits = commits
        self.listed_rules = rules
        self.listed = listed
        self.refs = {"main": "d", "topic": "t", "v1": "b"}

    def branches(self, _: str) -> list[Ref]:
        return [TOPIC, MAIN]

    def tags(self, _: str) -> list[Ref]:
        return [TAG]

    def rules(self, _: str) -> Rules | None:
        return self.listed_rules

    def commit(self, _: str, commit_id: str) -> Commit:
        if commit_id not in self.commits:
            raise NotFoundError("no such commit")
        return self.commits[commit_id]

    def log(self, _: str, ref: str) -> Iterator[Commit]:
        waiting = [self.refs.get(ref, ref)]
        while waiting:
            found = self.commit("", waiting.pop())
            yield found
            waiting.extend(found.parents)

    def prepare_commits(self, *_: object) -> PreparedCommits | None:
        return None if self.listed is None else PreparedCommits("x", "memory://lake/list.csv")


def run_of(server: Server, policy: Policy | None = None, keep_tags: bool = True, **config: Any) -> Run:
    reader = SimpleNamespace(get=lambda _: server.listed)
    safety = SimpleNamespace(prepare_deadline_seconds=1)
    usual = {"read_kv": False, "live_source": AUTO, "safety": safety}
    plan = SimpleNamespace(
        run_id="run",
        repository="lake",
        namespace="memory://lake",
        default_branch="main",
        created_at=NOW,
        config=SimpleNamespace(policy=policy, keep_tags=keep_tags, **{**usual, **config}),
    )
    return cast("Run", SimpleNamespace(plan=plan, client=server, reader=reader))


def csv(*names: str, metarange: str = "") -> bytes:
    rows = [f"{name},false,{metarange or f'm-{name}'}\n" for name in names]
    return ("commit_id,expired,metarange_id\n" + "".join(rows)).encode()
