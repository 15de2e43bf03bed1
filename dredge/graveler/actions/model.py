"""Action files, parsed and checked.

    name: checks                        required
    on:                                 required: events, each with the branches it is for (none: all)
      pre-merge: {branches: [main, "release-*"]}
    hooks:                              run one after the other; the actions of one event run side by side
      - id: no_temp                     unique in the file
        type: webhook                   webhook, airflow or lua
        if: success()                   optional: run it all the same after a failure, or only then
        properties: {url: …}

Any file directly below `_lakefs_actions/` is one, whatever its name ends with. Scalars are read as YAML 1.2 does:
`on` and `yes` are text.

Source: lakeFS pkg/actions/action.go, hook.go, hook validators; the texts of errors are those of a real server.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from dredge.graveler.actions.errors import ActionFileError
from dredge.graveler.actions.globs import matches
from dredge.graveler.catalog.events import Event, EventType

_NAME = re.compile(r"[0-9A-Za-z_][\w\-. ]+", re.ASCII)
_HOOK_ID = re.compile(r"[_a-zA-Z][\-_a-zA-Z0-9]{1,255}")
_REQUIRED: Mapping[str, Sequence[tuple[str, ...]]] = {
    "webhook": (("url",),),
    "airflow": (("url",), ("dag_id",), ("username",), ("password",)),
    "lua": (("script", "script_path"),),
}
"""Properties of each type of hook; of each group one must be there."""


@dataclass(frozen=True, slots=True)
class ActionHook:
    """A hook as an action file defines it.

    Attributes:
        id: its name in the file.
        type: webhook, airflow or lua.
        condition: when to run it; "" runs it unless one before it failed.
        properties: depend on the type.
    """

    id: str
    type: str
    condition: str
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Action:
    """An action file.

    Attributes:
        name: unique among the files of a ref.
        on: patterns of branches by event; () is for all branches.
        hooks: in the order of the file.
    """

    name: str
    on: Mapping[EventType, Sequence[str]]
    hooks: Sequence[ActionHook]

    def is_for(self, event: Event) -> bool:
        """Whether its hooks run on an event.

        Raises:
            ActionFileError: a pattern is malformed.
        """
        if event.type not in self.on:
            return False
        patterns = self.on[event.type]
        return not patterns or any(matches(pattern, event.branch) for pattern in patterns)


def parse_action(content: bytes) -> Action:
    """Read an action file.

    Raises:
        ActionFileError: it is not YAML, or it breaks a rule.
    """
    try:
        found = yaml.load(content, _Loader)
    except yaml.YAMLError as error:
        raise ActionFileError(_yaml_problem(error)) from None
    fields = {} if found is None else _mapping(found, "an action")
    name = _text(fields.get("name"), "name")
    if not name:
        raise _invalid("'name' is required")
    if not _NAME.fullmatch(name):
        raise _invalid("'name' is invalid")
    return Action(name, _events(fields.get("on")), tuple(_hooks(fields.get("hooks"))))


def _yaml_problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"yaml: line {error.problem_mark.line + 1}: {error.problem}"
    return f"yaml: {' '.join(str(error).split())}"


def _events(found: object) -> Mapping[EventType, Sequence[str]]:
    if not found:
        raise _invalid("'on' is required")
    events: dict[EventType, Sequence[str]] = {}
    for name, rule in _mapping(found, "on").items():
        if name not in frozenset(EventType):
            raise _invalid(f"event '{name}' is not supported")
        event = EventType(str(name))
        fields = {} if rule is None else _mapping(rule, f"on.{name}")
        patterns = [_text(each, "branches") for each in _sequence(fields.get("branches"), "branches")]
        if patterns and event.concerns_tag:
            raise ActionFileError("'branches' is not supported in tag event types. invalid event parameter")
        events[event] = tuple(patterns)
    return events


def _hooks(found: object) -> Iterator[ActionHook]:
    seen: set[str] = set()
    for number, each in enumerate(_sequence(found, "hooks")):
        fields = {} if each is None else _mapping(each, f"hooks[{number}]")
        identifier, kind = _text(fields.get("id"), "id"), _text(fields.get("type"), "type")
        if not _HOOK_ID.fullmatch(identifier):
            raise _invalid(f"hook[{number}] missing ID")
        if identifier in seen:
            raise _invalid(f"hook[{number}] duplicate ID '{identifier}'")
        seen.add(identifier)
        if kind not in _REQUIRED:
            raise _invalid(f"hook[{number}] type '{identifier}' unknown")
        properties = _properties(fields.get("properties"), kind, f"hook[{number}] type '{kind}'")
        yield ActionHook(identifier, kind, _text(fields.get("if"), "if"), properties)


def _properties(found: object, kind: str, where: str) -> Mapping[str, Any]:
    if found is None:
        raise _invalid(f"{where}: missing hook properties")
    properties = _mapping(found, "properties")
    for group in _REQUIRED[kind]:
        if not any(key in properties for key in group):
            raise _invalid(f"{where}: '{"' or '".join(group)}' must be supplied in properties")
    return properties


def _mapping(found: object, where: str) -> Mapping[str, Any]:
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise ActionFileError(f"yaml: unmarshal errors: {where} must be a mapping with names as keys")
    return found


def _sequence(found: object, where: str) -> Sequence[object]:
    if found is None:
        return ()
    if not isinstance(found, list):
        raise ActionFileError(f"yaml: unmarshal errors: {where} must be a list")
    return found


def _text(found: object, where: str) -> str:
    """A scalar as text; a number is the text it was written with, or nearly so."""
    if found is None:
        return ""
    if isinstance(found, bool):
        return "true" if found else "false"
    if not isinstance(found, str | int | float):
        raise ActionFileError(f"yaml: unmarshal errors: {where} must be text")
    return str(found)


def _invalid(problem: str) -> ActionFileError:
    return ActionFileError(f"{problem}: invalid action")


class _Loader(yaml.SafeLoader):
    """Safe YAML with the scalars of YAML 1.2, and without keys that come twice."""

    yaml_implicit_resolvers = {
        char: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in ("null", "float")]
        for char, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'mapping key "{key.value}" already defined', key.start_mark
                )
            if isinstance(key.value, str):
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"(?:[-+]?[0-9]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")
)
