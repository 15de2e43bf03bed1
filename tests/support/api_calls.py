"""A request for each row of the route table, made from the table: for tests that walk all routes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dredge.server.bodies import BOOLEAN, INTEGER, TEXT, Kind, ListOf, MapOfText, Schema
from dredge.server.endpoint import Operation

QUERY: Mapping[str, str] = {
    "path": "a/b",
    "id": "GCPCaaaaaaaaaaaaaaaaaaaa",
    "task_id": "DRaaaaaaaaaaaaaaaaaaaa",
    "ref": "main",
    "dest_path": "c",
}


def name(operation: Operation) -> str:
    """How a test case is called."""
    return f"{operation.method} {operation.path}"


def concrete(path: str, repository: str = "no-such-repository") -> str:
    """A path with its parameters filled: everything but the repository is called `main`."""
    return re.sub(r"{\w+}", "main", path.replace("{repository}", repository))


def sample(kind: Kind | None) -> Any:
    """The smallest body of a kind."""
    match kind:
        case Schema():
            return {key: sample(inner) for key, inner in kind.required.items()}
        case ListOf():
            return [sample(kind.item)]
        case MapOfText():
            return {}
        case "string" | "integer" | "boolean":
            return {TEXT: "reset", INTEGER: 1, BOOLEAN: False}[kind]
    return None
