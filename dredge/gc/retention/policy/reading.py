"""Reading a retention policy: a small YAML file, checked node by node, so that every complaint names its line.

    version: 1
    keep:
      - name: releases               # in the report; without it "rule 1", "rule 2" …
        branches: ["main", "release-*"]
        last: 10                     # a number, or all
      - name: audit
        branches: main
        paths: ["audit/**"]          # only these entries, of all commits of the line unless `last` says fewer

A rule needs `last` or `paths`. Without `branches` it is about every branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from dredge.errors import ConfigError, NotFoundError
from dredge.gc.retention.policy.globs import compile_glob
from dredge.gc.retention.policy.model import VERSION, PolicyRule, RetentionPolicy
from dredge.storage import StorageOptions, open_reader

if TYPE_CHECKING:
    from yaml.nodes import Node

INLINE = "retention_policy"
"""What an inline policy is called in messages."""
_RULE = ("name", "branches", "last", "paths")
_NULL, _INT = "tag:yaml.org,2002:null", "tag:yaml.org,2002:int"


def load_policy(given: str, options: StorageOptions | None = None) -> RetentionPolicy:
    """Read a policy from where it is: inline text, or a file that a path or URI names.

    Args:
        given: text with a line break, or that begins with `{`, is the policy itself; anything else names it:
            `/absolute/path.yaml`, `s3://bucket/path.yaml` and so on.
        options: how object stores are reached; None reads the environment.

    Raises:
        ConfigError: there is no such file, or it is not a policy; with file and line.
    """
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
    """Read a policy's text.

    Args:
        text: YAML.
        name: what to call it in messages.

    Raises:
        ConfigError: with name and line.
    """
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        hint = (
            "; put a pattern that begins with * in quotes"
            if "alias" in f"{error.context} {error.problem}"
            else ""
        )
        raise ConfigError(
            f"{name}:{line}: this is not YAML: {error.problem or error.context}{hint}"
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}:1: this is not YAML: {error}") from None
    return _File(name).policy(node)


class _File:
    """Checks the nodes of one file.

    Args:
        name: for messages.
    """

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
                self._fail(item, f"the rule of line {first} is called {rule.name!r} too")
            lines[rule.name] = item
        return RetentionPolicy(tuple(rule for rule, _ in rules), self._name)

    def _rule(self, node: Node, number: int) -> tuple[PolicyRule, Node]:
        members = self._members(node, _RULE, "a rule")
        if "last" not in members and "paths" not in members:
            self._fail(node, "the rule says neither 'last' (how many commits) nor 'paths' (which entries)")
        name = self._text(members["name"], "name") if "name" in members else f"rule {number}"
        branches = self._globs(members["branches"], "branches") if "branches" in members else ("**",)
        paths = self._globs(members["paths"], "paths") if "paths" in members else ()
        last = self._last(members["last"]) if "last" in members else None
        return PolicyRule(name, branches, last, paths), node

    def _last(self, node: Node) -> int | None:
        if _is_scalar(node) and node.value == "all":
            return None
        last = self._number(node, "last", " or 'all'")
        if last < 1:
            self._fail(
                node, f"'last' is {last}; it must be at least 1, for the head of a branch is always kept"
            )
        return last

    def _globs(self, node: Node, what: str) -> tuple[str, ...]:
        items = [node] if _is_scalar(node) else list(self._items(node, what))
        if not items:
            self._fail(node, f"{what!r} is an empty list: the rule would keep nothing")
        return tuple(self._glob(item, what) for item in items)

    def _glob(self, node: Node, what: str) -> str:
        glob = self._text(node, what)
        try:
            compile_glob(glob)
        except ConfigError as error:
            self._fail(node, f"{what!r}: {error}")
        return glob

    def _members(self, node: Node, names: tuple[str, ...], what: str) -> dict[str, Node]:
        if _kind(node) != "mapping":
            self._fail(node, f"{what} must have the form 'name: value', with {', '.join(names)}")
        found: dict[str, Node] = {}
        for key, value in node.value:
            name = self._text(key, "a name")
            if name not in names:
                self._fail(key, f"{what} has no {name!r}; there are {', '.join(names)}")
            if name in found:
                self._fail(key, f"{name!r} is there twice")
            found[name] = value
        return found

    def _items(self, node: Node, what: str) -> Iterator[Node]:
        if _kind(node) != "sequence":
            self._fail(node, f"{what!r} must be a list")
        return iter(node.value)

    def _text(self, node: Node, what: str) -> str:
        # What looks like a number or a truth value is text all the same: a branch may be called 2024, or on.
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
