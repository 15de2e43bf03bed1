"""The specification of this server's API (OpenAPI 3), made from the route table and the schemas of bodies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lakefs_embedded.server.operations import Operation
from lakefs_embedded.server.schema import FieldType, ListOf, MapOfText, Schema

JsonObject = dict[str, Any]


def specification(base_path: str, version: str, operations: Iterable[Operation]) -> JsonObject:
    """Build the specification; all operations are below `base_path`."""
    paths: JsonObject = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.0.0",
        "info": {"title": "lakeFS API (embedded server)", "version": version},
        "servers": [{"url": base_path}],
        "security": [{"basic_auth": []}, {"jwt_token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic_auth": {"type": "http", "scheme": "basic"},
                "jwt_token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            }
        },
    }


def _operation(operation: Operation) -> JsonObject:
    made: JsonObject = {
        "operationId": operation.name,
        "summary": (operation.handler.__doc__ or "").strip().splitlines()[0],
        "parameters": [
            {"in": "path", "name": name, "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", operation.path)
        ],
        "responses": {"default": {"description": "the result, or an error with a message"}},
    }
    if operation.public:
        made["security"] = []
    if operation.schema is not None:
        required = not isinstance(operation.schema, Schema) or operation.schema.required_body
        content = {"application/json": {"schema": _type(operation.schema)}}
        made["requestBody"] = {"required": required, "content": content}
    return made


def _type(expected: FieldType) -> JsonObject:
    match expected:
        case Schema():
            fields = {**expected.required, **expected.optional}
            made: JsonObject = {
                "type": "object",
                "title": expected.name,
                "properties": {name: _type(inner) for name, inner in fields.items()},
            }
            return {**made, "required": list(expected.required)} if expected.required else made
        case ListOf():
            return {"type": "array", "items": _type(expected.item)}
        case MapOfText():
            return {"type": "object", "additionalProperties": {"type": "string"}}
    return {"type": str(expected)}
