"""Requests made from rows of the route table, for tests of all routes."""

import re
from collections.abc import Mapping
from typing import Any

from lakefs_embedded.server.operations import Operation
from lakefs_embedded.server.schemas import BOOLEAN, INTEGER, TEXT, FieldType, ListOf, MapOfText, Schema

QUERY: Mapping[str, str] = {
    "path": "a/b",
    "id": "GCPCaaaaaaaaaaaaaaaaaaaa",
    "task_id": "DRaaaaaaaaaaaaaaaaaaaa",
    "ref": "main",
    "dest_path": "c",
}


def name(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


def concrete(path: str, repository: str = "no-such-repository") -> str:
    """Fill in path parameters: the repository, and `main` for all others."""
    return re.sub(r"{\w+}", "main", path.replace("{repository}", repository))


def sample(expected: FieldType | None) -> Any:
    match expected:
        case Schema():
            return {key: sample(inner) for key, inner in expected.required.items()}
        case ListOf():
            return [sample(expected.item)]
        case MapOfText():
            return {}
        case "string" | "integer" | "boolean":
            return {TEXT: "reset", INTEGER: 1, BOOLEAN: False}[expected]
    return None
