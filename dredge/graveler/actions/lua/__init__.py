"""Lua hooks: a script that approves by ending, and refuses by an error.

    properties:
      script: print(action.branch_id)                 or script_path: scripts/check.lua, in the repository
      args: {table: events, token: "{{ ENV.LAKEFSACTION_TOKEN }}"}

A script sees the globals `action` (the event), `args`, `username`, and modules by `require` (`modules`). Calls of the
API are made with the rights of the user whose request is being handled.

Source: lakeFS pkg/actions/lua.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from dredge.graveler.actions.errors import HookError
from dredge.graveler.actions.hooks import HookSettings, Log, Run, required
from dredge.graveler.actions.lua.modules import find_module
from dredge.graveler.actions.lua.runtime import Sandbox
from dredge.graveler.actions.text import NEVER, rfc3339
from dredge.graveler.actions.variables import Redaction, Variables
from dredge.graveler.catalog.events import Event


class LuaHook:
    """Runs a script.

    Args:
        properties: of the hook.
        variables: that its arguments may use.
        settings: what scripts may do.

    Raises:
        HookError: a property is wrong.
    """

    def __init__(self, properties: Mapping[str, Any], variables: Variables, settings: HookSettings) -> None:
        self._settings = settings
        arguments = properties.get("args", {})
        if not isinstance(arguments, dict):
            raise HookError("'args' should be a map: wrong value type", failed=False)
        self._arguments = variables.fill_all(arguments)
        self._script = self._path = ""
        if properties.get("script", "") != "":
            self._script = required(properties, "script")
        elif "script_path" in properties:
            self._path = required(properties, "script_path")
        else:
            raise HookError("'script' or 'script_path' must be supplied: wrong value type", failed=False)
        self._redaction = variables.redaction()

    @property
    def redaction(self) -> Redaction:
        """Hides what its arguments got from variables."""
        return self._redaction

    def run(self, event: Event, run: Run, log: Log) -> None:
        """Run the script.

        Raises:
            HookError: it failed, or took too long.
        """
        settings = self._settings
        sandbox = Sandbox(
            lambda name: find_module(name, settings, lambda: sandbox.seconds_left),
            log.write,
            settings.lua_seconds,
        )
        variables = {"username": run.user, "args": self._arguments, "action": _action(event, run)}
        sandbox.run(self._code(event), variables)

    def _code(self, event: Event) -> bytes:
        if not self._path:
            return self._script.encode("utf-8", "replace")
        if self._settings.call is None:
            raise HookError(f"no endpoint configured, cannot request object: {self._path}: invalid action")
        path = f"/repositories/{event.repository.name}/refs/{quote(event.source, safe='')}/objects"
        status, body = self._settings.call("GET", path, {"path": self._path}, None)
        if status != 200:
            raise HookError(f"could not load script_path {self._path}: HTTP {status}: invalid action")
        return body


def _action(event: Event, run: Run) -> dict[str, Any]:
    """The event as scripts see it."""
    commit = event.commit
    return {
        "action_name": run.action,
        "hook_id": run.hook,
        "run_id": run.id,
        "pre_run_id": run.before,
        "event_type": str(event.type),
        "commit_id": event.commit_id,
        "branch_id": event.branch,
        "source_ref": event.source,
        "tag_id": event.tag,
        "merge_source": event.merge_source,
        "repository_id": event.repository.name,
        "storage_namespace": event.repository.storage_namespace,
        "commit": {
            "message": "" if commit is None else commit.message,
            "meta_range_id": "" if commit is None else commit.metarange_id,
            "creation_date": rfc3339(NEVER if commit is None else commit.creation_date),
            "version": 0 if commit is None else commit.version,
            "metadata": {} if commit is None else dict(commit.metadata),
            "parents": [] if commit is None else list(commit.parents),
        },
    }
