"""A retention policy as a value: rules that keep more than lakeFS's own do, never less.

    for each branch that a rule names: its head and the commits before it on the branch's main line,
    as many as the rule says; all of their entries, or only those whose path matches

It travels in the plan of a run, so that every step and every retry works with the same one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dredge.errors import ConfigError
from dredge.gc.retention.policy.globs import compile_glob
from dredge.lakefs import Commit, Ref
from dredge.runs.payload import to_json

VERSION = 1


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule.

    Attributes:
        name: for the report; no other rule has it.
        branches: patterns of branch names, hidden branches too; any of them may match.
        last: commits of the branch's main line that count, its head included; None is all of them.
        paths: only entries whose path matches one of these patterns; () is every entry.
    """

    name: str
    branches: tuple[str, ...] = ("**",)
    last: int | None = None
    paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigError("the rule's name is empty")
        if not self.branches:
            raise ConfigError(f"rule {self.name!r} names no branches; '*' is all of them")
        if self.last is not None and self.last < 1:
            raise ConfigError(f"rule {self.name!r} keeps the last {self.last} commits; it must be at least 1")
        for glob in (*self.branches, *self.paths):
            compile_glob(glob)

    def names_branch(self, branch: str) -> bool:
        """Whether the rule is about a branch."""
        return any(compile_glob(glob).fullmatch(branch) for glob in self.branches)


@dataclass(frozen=True, slots=True)
class Keep:
    """What a rule keeps in a repository as it is now.

    Attributes:
        rule: the rule.
        branches: names of the branches that it is about.
        commits: ids of the commits that it keeps.
    """

    rule: PolicyRule
    branches: tuple[str, ...]
    commits: frozenset[str]


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Rules, all of which count.

    Attributes:
        rules: in the order of the file.
        name: where they were read, for messages.
    """

    rules: tuple[PolicyRule, ...]
    name: str = "retention policy"

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.rules]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ConfigError(f"{self.name}: two rules are called {twice!r}")

    @property
    def digest(self) -> str:
        """SHA-256 of the rules, hex."""
        return hashlib.sha256(json.dumps(to_json(self)["rules"], sort_keys=True).encode()).hexdigest()

    def keeps(self, branches: Iterable[Ref], graph: Mapping[str, Commit]) -> list[Keep]:
        """Apply each rule.

        Args:
            branches: all branches, hidden ones too.
            graph: commits by id; with a commit all its ancestors.
        """
        heads = list(branches)
        found = []
        for rule in self.rules:
            chosen = [branch for branch in heads if rule.names_branch(branch.id)]
            commits = {commit for branch in chosen for commit in _line(graph, branch.commit_id, rule.last)}
            found.append(Keep(rule, tuple(branch.id for branch in chosen), frozenset(commits)))
        return found


def _line(graph: Mapping[str, Commit], head: str, last: int | None) -> Iterator[str]:
    """The newest commits of a main line: of a version 0 merge it goes on with the last parent."""
    commit_id: str | None = head
    count = 0
    while commit_id is not None and (last is None or count < last):
        commit = graph[commit_id]
        yield commit_id
        count += 1
        commit_id = main_parent(commit)


def main_parent(commit: Commit) -> str | None:
    """The parent that retention follows; None of a first commit."""
    if not commit.parents:
        return None
    return commit.parents[-1] if commit.version == 0 else commit.parents[0]
