r"""Retention: the end of each commit by lakeFS's rules, and policies that keep more, never less.

A policy is a small YAML file, checked node by node so that each error names its line:

    version: 1
    keep:
      - name: releases               # in the report; by default "rule 1", "rule 2" …
        branches: ["main", "release-*"]
        last: 10                     # a number, or all
      - name: audit
        branches: main
        paths: ["audit/**"]          # only these entries, of all commits of the line unless `last` says fewer

A rule keeps the head of each matching branch and the commits before it on the branch's main line, `last` in number;
all their entries, or those with a matching path. A rule needs `last` or `paths`. Without `branches` it matches every
branch. The policy is part of a run's plan, so every step and every retry uses the same one.

Patterns of branch names and paths match the whole text, with case:

    *        any text without "/"               logs/*.txt matches logs/a.txt, not logs/x/a.txt
    **       any text, "/" too                  logs/** matches logs/a.txt and logs/x/a.txt
    **/      any folders, or none               **/a.txt matches a.txt and x/y/a.txt
    ?        one character but "/"
    [a-c]    one of these; [!a-c] one of the others but "/"
    \x       x itself

A pattern that ends with "/" matches everything below.

The end of each commit of a repository, and so its active commits:

Lines start at all branch heads, including hidden branches, and at all leaves: commits that are not the main parent of
another commit, with or without a ref. Tags are not starting points. Each line follows main parents to the root:

    threshold T = now - days of the branch's rule, or of the default (leaves: always the default)

    head ──▶ parent ──▶ parent ──▶ …        a branch head is active
     │         ▲                            a parent is active if its child is younger than T (strictly),
     └─ younger than T                      so the newest commit older than T on each line stays active

A leaf that is not a head is treated as the parent of a child of the same age. A head stays as long as it is a head; any
other commit until

    the greatest of, for each child c and each line through c:  creation date of c + days of the line

A commit is active now if its end is in the future. The branches behind a commit are disjoint in its children, so they
are counted by addition, in one pass over the history. The result includes the server's, whose walk may lose commits
(L19).

Source: lakeFS pkg/graveler/retention/active_commits.go (behaviour only).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct, field

from dredge.errors import ConfigError, NotFoundError
from dredge.lakefs import Commit, Ref, Rules
from dredge.runs.payload import to_json
from dredge.storage import StorageOptions, open_reader

if TYPE_CHECKING:
    from yaml.nodes import Node


_CLASS = re.compile(r"\[(!?)(\]?[^\]]*)\]")


def compile_glob(glob: str) -> re.Pattern[str]:
    """Compile a pattern to a regular expression, for `fullmatch`; raises ConfigError for an invalid pattern."""
    if not glob:
        raise ConfigError("the pattern is empty; '**' matches everything")
    text, regex, place = glob + "**" if glob.endswith("/") else glob, "", 0
    while place < len(text):
        piece, place = _piece(text, place, glob)
        regex += piece
    try:
        return re.compile(regex, re.DOTALL)
    except re.error as error:
        raise ConfigError(f"the pattern {glob!r} cannot be read: {error}") from None


def _piece(text: str, place: int, glob: str) -> tuple[str, int]:
    character = text[place]
    if character == "*":
        return _stars(text, place)
    if character == "?":
        return "[^/]", place + 1
    if character == "\\":
        if place + 1 == len(text):
            raise ConfigError(f"the pattern {glob!r} ends with a backslash; write \\\\ for one in a name")
        return re.escape(text[place + 1]), place + 2
    if character == "[":
        match = _CLASS.match(text, place)
        if match is None:
            raise ConfigError(f"the pattern {glob!r} has a '[' without ']'; write \\[ for one in a name")
        members = re.sub(r"([\\\[\]^&~|])", r"\\\1", match[2])
        return (f"(?!/)[^{members}]" if match[1] else f"(?!/)[{members}]"), match.end()
    return re.escape(character), place + 1


def _stars(text: str, place: int) -> tuple[str, int]:
    end = place
    while end < len(text) and text[end] == "*":
        end += 1
    if end - place == 1:
        return "[^/]*", end
    begins_folder = place == 0 or text[place - 1] == "/"
    if begins_folder and end < len(text) and text[end] == "/":
        return "(?:.*/)?", end + 1
    return ".*", end


VERSION = 1


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A rule."""

    name: str  # unique, for the report
    branches: tuple[str, ...] = ("**",)  # patterns of branch names, hidden branches too
    last: int | None = None  # commits of the main line, with the head; None for all
    paths: tuple[str, ...] = ()  # patterns of paths; () for every entry

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigError("the rule's name is empty")
        if not self.branches:
            raise ConfigError(f"rule {self.name!r} names no branches; '**' matches all of them")
        if self.last is not None and self.last < 1:
            raise ConfigError(
                f"'last' of rule {self.name!r} is {self.last}; it must be at least 1: a branch head is always kept"
            )
        for glob in (*self.branches, *self.paths):
            compile_glob(glob)

    def names_branch(self, branch: str) -> bool:
        """Whether the rule matches a branch."""
        return any(compile_glob(glob).fullmatch(branch) for glob in self.branches)


class Keep(Struct, frozen=True):
    """The commits that a rule keeps in a repository now, and the matching branches."""

    rule: PolicyRule
    branches: tuple[str, ...]
    commits: frozenset[str]


class RetentionPolicy(Struct, frozen=True):
    """Rules, all of which count, and a name for messages."""

    rules: tuple[PolicyRule, ...]
    name: str = "retention policy"

    @property
    def digest(self) -> str:
        """SHA-256 of the rules, hex."""
        return hashlib.sha256(json.dumps(to_json(self)["rules"], sort_keys=True).encode()).hexdigest()

    def keeps(self, branches: Iterable[Ref], graph: Mapping[str, Commit]) -> list[Keep]:
        """Apply each rule to the branches (all, with hidden branches) and their history."""
        heads = list(branches)
        found = []
        for rule in self.rules:
            chosen = [branch for branch in heads if rule.names_branch(branch.id)]
            commits = {commit for branch in chosen for commit in _line(graph, branch.commit_id, rule.last)}
            found.append(Keep(rule, tuple(branch.id for branch in chosen), frozenset(commits)))
        return found


def _line(graph: Mapping[str, Commit], head: str, last: int | None) -> Iterator[str]:
    commit_id: str | None = head
    count = 0
    while commit_id is not None and (last is None or count < last):
        commit = graph[commit_id]
        yield commit_id
        count += 1
        commit_id = main_parent(commit)


def main_parent(commit: Commit) -> str | None:
    """The parent on the main line; None for a first commit."""
    if not commit.parents:
        return None
    # A version 0 merge, of the oldest servers, has its main parent last (L21).
    return commit.parents[-1] if commit.version == 0 else commit.parents[0]


# The name of an inline policy in messages.
INLINE = "retention_policy"
_RULE = ("name", "branches", "last", "paths")
_NULL, _INT = "tag:yaml.org,2002:null", "tag:yaml.org,2002:int"


def load_policy(given: str, options: StorageOptions | None = None) -> RetentionPolicy:
    """Read a policy from inline text, or from a file. `given`: text with a line break, or with `{` as its first
    character, is the policy itself; other text is its path or URI: `/absolute/path.yaml`, `s3://bucket/path.yaml`."""
    if "\n" in given or given.lstrip().startswith("{"):
        return read_policy(given, INLINE)
    place = given.strip()
    uri = f"file://{place}" if place.startswith("/") else place
    folder, _, name = uri.rpartition("/")
    if "://" not in uri or not name or folder.endswith(":/"):
        raise ConfigError(
            f"retention_policy {given!r} is neither an absolute path, nor a URI such as s3://bucket/policy.yaml, nor"
            " the policy's text itself"
        )
    try:
        data = open_reader(folder, options).get(name)
    except NotFoundError:
        raise ConfigError(f"retention_policy: there is no file {place}") from None
    try:
        return read_policy(data.decode("utf-8-sig"), place)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{place}:{line}: the file is not UTF-8") from None


def read_policy(text: str, name: str) -> RetentionPolicy:
    """Read a policy from YAML text; a ConfigError has its name and line."""
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        is_alias = "alias" in f"{error.context} {error.problem}"
        hint = "; put a pattern that begins with * in quotes" if is_alias else ""
        raise ConfigError(
            f"{name}:{line}: this is not YAML: {error.problem or error.context}{hint}"
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}:1: this is not YAML: {error}") from None
    return _File(name).policy(node)


class _File:
    def __init__(self, name: str) -> None:
        self._name = name

    def policy(self, node: Node | None) -> RetentionPolicy:
        if node is None:
            raise ConfigError(f"{self._name}:1: the policy is empty; it needs 'version: 1' and 'keep:'")
        members = self._members(node, ("version", "keep"), "the policy")
        for needed in ("version", "keep"):
            if needed not in members:
                self._fail(node, f"the policy has no {needed!r}")
        version = self._number(members["version"], "version")
        if version != VERSION:
            self._fail(
                members["version"], f"version {version} is unknown; this Dredge reads version {VERSION}"
            )
        rules = [
            self._rule(item, number) for number, item in enumerate(self._items(members["keep"], "keep"), 1)
        ]
        lines: dict[str, Node] = {}
        for rule, item in rules:
            if rule.name in lines:
                first = lines[rule.name].start_mark.line + 1
                self._fail(item, f"the rule of line {first} has the name {rule.name!r} too")
            lines[rule.name] = item
        return RetentionPolicy(tuple(rule for rule, _ in rules), self._name)

    def _rule(self, node: Node, number: int) -> tuple[PolicyRule, Node]:
        members = self._members(node, _RULE, "a rule")
        if "last" not in members and "paths" not in members:
            self._fail(node, "the rule has neither 'last' (number of commits) nor 'paths' (entries to keep)")
        name = self._text(members["name"], "name") if "name" in members else f"rule {number}"
        branches = self._globs(members["branches"], "branches") if "branches" in members else ("**",)
        paths = self._globs(members["paths"], "paths") if "paths" in members else ()
        last = self._last(members["last"]) if "last" in members else None
        try:
            return PolicyRule(name, branches, last, paths), node
        except ConfigError as error:
            self._fail(node, str(error))

    def _last(self, node: Node) -> int | None:
        if _is_scalar(node) and node.value == "all":
            return None
        return self._number(node, "last", " or 'all'")

    def _globs(self, node: Node, what: str) -> tuple[str, ...]:
        items = [node] if _is_scalar(node) else list(self._items(node, what))
        if not items:
            self._fail(node, f"{what!r} is an empty list: the rule would keep nothing")
        return tuple(self._text(item, what) for item in items)

    def _members(self, node: Node, names: tuple[str, ...], what: str) -> dict[str, Node]:
        if _kind(node) != "mapping":
            self._fail(node, f"{what} must have the form 'name: value', with {', '.join(names)}")
        found: dict[str, Node] = {}
        for key, value in node.value:
            name = self._text(key, "a name")
            if name not in names:
                self._fail(key, f"{what} has no {name!r}; there are {', '.join(names)}")
            if name in found:
                self._fail(key, f"{name!r} is given twice")
            found[name] = value
        return found

    def _items(self, node: Node, what: str) -> Iterator[Node]:
        if _kind(node) != "sequence":
            self._fail(node, f"{what!r} must be a list")
        return iter(node.value)

    def _text(self, node: Node, what: str) -> str:
        # Numbers and booleans are text as well: a branch may be called 2024, or on.
        if not _is_scalar(node) or node.tag == _NULL or not node.value:
            self._fail(node, f"{what!r} must be a text")
        return str(node.value)

    def _number(self, node: Node, what: str, more: str = "") -> int:
        if _is_scalar(node) and node.tag == _INT and str(node.value).isdecimal():
            return int(node.value)
        return self._fail(node, f"{what!r} must be a whole number{more}, not {_shown(node)}")

    def _fail(self, node: Node, text: str) -> NoReturn:
        raise ConfigError(f"{self._name}:{node.start_mark.line + 1}: {text}")


def _kind(node: Node) -> str:
    return str(node.id)  # type: ignore[attr-defined]


def _is_scalar(node: Node) -> bool:
    return _kind(node) == "scalar"


def _shown(node: Node) -> str:
    value: Any = node.value
    return repr(value) if _is_scalar(node) else f"a {_kind(node)}"


FOREVER = datetime.max.replace(tzinfo=UTC)
_NAMES_MAX = 5


class Line(Struct):
    """The end of a commit, and the lines through it."""

    heads: list[str] = field(default_factory=list)  # names of the branches at the commit
    until: datetime | None = None  # when the rules stop keeping it, except as a head; None without a line
    by: str = ""  # the branch with that rule; "" for the default rule of a leaf
    branches: list[str] = field(default_factory=list)  # names of some branches with a line through it
    num_branches: int = 0  # the number of these branches
    keepers: int = 0  # number of lines that keep it active now, as a head or by a rule
    keeper: str | None = None  # the branch of the only such line; None otherwise

    def is_active(self, now: datetime) -> bool:
        """Whether the commit is a head, or kept by a rule."""
        return bool(self.heads) or (self.until is not None and self.until > now)


class _Through(Struct):
    """The lines through a commit, by their days: their number, and one of their branches ("" for a leaf's line)."""

    count: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    branch: dict[int, str] = field(default_factory=dict)

    def add(self, days: int, count: int, branch: str) -> None:
        self.count[days] += count
        self.branch.setdefault(days, branch)


def find_lines(
    graph: Mapping[str, Commit], branches: Iterable[Ref], rules: Rules | None, now: datetime
) -> dict[str, Line]:
    """Follow every line of a history, closed under main parents, from all branches; return a line for each commit id.
    Without rules everything is kept."""
    found = {commit_id: Line() for commit_id in graph}
    through: dict[str, _Through] = defaultdict(_Through)  # of commits still to come
    for branch in branches:
        if branch.commit_id in graph:
            line, days = found[branch.commit_id], _days(rules, branch.id)
            line.heads.append(branch.id)
            line.num_branches += 1
            line.branches = [*line.branches, branch.id][:_NAMES_MAX]
            _keep(line, 1, branch.id)
            through[branch.commit_id].add(days, 1, branch.id)
    for commit in _children_first(graph):
        line, lines = found[commit.id], through.pop(commit.id, None) or _Through()
        if not lines.count:  # a leaf
            days = _days(rules, None)
            lines.add(days, 1, "")
            line.until = until_after(commit.created_at, days)
            if line.until > now:
                _keep(line, 1, "")
        parent = main_parent(commit)
        if parent is not None and parent in graph:
            _hand_on(commit, lines, found[parent], through[parent], now)
            found[parent].num_branches += line.num_branches
            found[parent].branches = [*found[parent].branches, *line.branches][:_NAMES_MAX]
    return found


def until_after(created_at: datetime, days: int) -> datetime:
    """Return the end of the main parent of a commit, by a rule of so many days."""
    try:
        return created_at + timedelta(days=days)
    except OverflowError:  # more days than a calendar has
        return FOREVER if days > 0 else datetime.min.replace(tzinfo=UTC)


def _hand_on(child: Commit, lines: _Through, line: Line, above: _Through, now: datetime) -> None:
    """Continue the lines through a commit to its main parent."""
    for days, count in lines.count.items():
        branch, until = lines.branch[days], until_after(child.created_at, days)
        above.add(days, count, branch)
        if line.until is None or until > line.until:
            line.until, line.by = until, branch
        if until > now:
            _keep(line, count, branch)


def _keep(line: Line, count: int, branch: str) -> None:
    line.keepers += count
    line.keeper = branch if line.keepers == 1 and branch else None


def _days(rules: Rules | None, branch: str | None) -> int:
    if rules is None:
        return timedelta.max.days
    if branch is None:
        return rules.default_retention_days
    return rules.branches.get(branch, rules.default_retention_days)


def _children_first(graph: Mapping[str, Commit]) -> Sequence[Commit]:
    waiting = dict.fromkeys(graph, 0)
    for commit in graph.values():
        parent = main_parent(commit)
        if parent is not None and parent in waiting:
            waiting[parent] += 1
    ready = [commit_id for commit_id, count in waiting.items() if not count]
    ordered: list[Commit] = []
    while ready:
        commit = graph[ready.pop()]
        ordered.append(commit)
        parent = main_parent(commit)
        if parent is not None and parent in waiting:
            waiting[parent] -= 1
            if not waiting[parent]:
                ready.append(parent)
    return ordered
