"""The module lakefs: calls of the API, with the rights of the user whose request is being handled.

    code, diff = lakefs.diff_refs(action.repository_id, "main", action.branch_id)

Answers are tables of what the API's JSON says, but `get_object` and `stat_object` give text.

Source: lakeFS pkg/actions/lua/lakefs/client.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from dredge.graveler.actions.hooks import ApiCall
from dredge.graveler.actions.lua.library import Library, Returns, function


def library(call: ApiCall | None) -> Library:
    """The module.

    Args:
        call: makes calls.

    Raises:
        LookupError: there is no server.
    """
    if call is None:
        raise LookupError("module 'lakefs' not found: there is no server to call")
    client = _Client(call)
    return {
        "create_tag": function("u u u", client.create_tag),
        "diff_refs": function("u u u u? u? u? i?", client.diff_refs),
        "diff_branch": function("u u u? i? u? u?", client.diff_branch),
        "list_objects": function("u u u? u? u? i? f?", client.list_objects),
        "get_object": function("u u u", client.get_object),
        "stat_object": function("u u u f?", client.stat_object),
        "update_object_user_metadata": function("u u u t", client.update_object_user_metadata),
    }


class _Client:
    """The calls that scripts can make."""

    def __init__(self, call: ApiCall) -> None:
        self._call = call

    def create_tag(self, repository: str, ref: str, tag: str) -> Returns:
        return self._json("POST", _path(repository, "tags"), {}, {"ref": ref, "id": tag})

    def diff_refs(
        self,
        repository: str,
        left: str,
        right: str,
        after: str | None,
        prefix: str | None,
        delimiter: str | None,
        amount: int | None,
    ) -> Returns:
        query = _query(after=after, prefix=prefix, delimiter=delimiter, amount=amount)
        return self._json("GET", _path(repository, "refs", left, "diff", right), query)

    def diff_branch(
        self,
        repository: str,
        branch: str,
        after: str | None,
        amount: int | None,
        prefix: str | None,
        delimiter: str | None,
    ) -> Returns:
        query = _query(after=after, prefix=prefix, delimiter=delimiter, amount=amount)
        return self._json("GET", _path(repository, "branches", branch, "diff"), query)

    def list_objects(
        self,
        repository: str,
        ref: str,
        after: str | None,
        prefix: str | None,
        delimiter: str | None,
        amount: int | None,
        metadata: bool | None,
    ) -> Returns:
        query = _query(after=after, prefix=prefix, delimiter=delimiter, amount=amount, user_metadata=metadata)
        return self._json("GET", _path(repository, "refs", ref, "objects", "ls"), query)

    def get_object(self, repository: str, ref: str, path: str) -> Returns:
        return Returns(self._call("GET", _path(repository, "refs", ref, "objects"), {"path": path}, None))

    def stat_object(self, repository: str, ref: str, path: str, metadata: bool | None) -> Returns:
        query = _query(path=path, user_metadata=metadata)
        return Returns(self._call("GET", _path(repository, "refs", ref, "objects", "stat"), query, None))

    def update_object_user_metadata(
        self, repository: str, branch: str, path: str, metadata: Mapping[str, Any]
    ) -> Returns:
        for name, value in metadata.items():
            if not isinstance(value, str):
                raise ValueError(f"value for key '{name}' should be a string: cannot pull go type into lua")
        where = _path(repository, "branches", branch, "objects", "stat", "user_metadata")
        return self._json("PUT", where, {"path": path}, {"set": metadata})

    def _json(self, method: str, path: str, query: Mapping[str, str], body: object = None) -> Returns:
        status, answer = self._call(method, path, query, body)
        return Returns((status, json.loads(answer)) if answer else (status,))


def _path(repository: str, *parts: str) -> str:
    return "/repositories/" + "/".join(quote(part, safe="") for part in (repository, *parts))


def _query(**arguments: str | int | bool | None) -> dict[str, str]:
    given = {name: value for name, value in arguments.items() if value is not None}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()
    }
