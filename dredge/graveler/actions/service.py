"""Actions: runs the hooks that a repository asks for, and tells what became of them.

    event → action files of its ref → those for the event → their hooks → results, logs, manifest

The actions of an event run side by side, the hooks of an action one after the other. Hooks before a change refuse
it by failing (412). Hooks after it run in the background, and nothing they do changes what has happened.

Source: lakeFS pkg/actions/service.go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from dredge.errors import DredgeError
from dredge.graveler.actions.errors import ActionFileError, HookError
from dredge.graveler.actions.files import ActionFiles
from dredge.graveler.actions.hooks import ApiCall, HookSettings
from dredge.graveler.actions.outputs import Outputs
from dredge.graveler.actions.results import HookResult, Results, RunResult
from dredge.graveler.actions.running import Runner
from dredge.graveler.catalog.background import Background
from dredge.graveler.catalog.contents import Contents
from dredge.graveler.catalog.events import Event, EventType
from dredge.graveler.catalog.model import Namespaces, Refs
from dredge.graveler.catalog.object_bytes import ObjectBytes
from dredge.graveler.catalog.results import Page
from dredge.graveler.errors import described
from dredge.graveler.refs.records import Repository
from dredge.graveler.xid import new_countdown_xid
from dredge.kv import Store

log = logging.getLogger(__name__)

_TELLS_THE_COMMIT = (EventType.POST_COMMIT, EventType.POST_REVERT)
"""Events after which the run before learns which commit was made."""


class Actions:
    """Runs hooks; the API calls on their runs.

    Args:
        kv: results.
        refs: records.
        contents: what refs hold.
        object_bytes: reads action files.
        namespaces: where logs go.
        background: runs hooks after changes.
        clock: aware UTC time.
        enabled: False ignores action files; earlier runs can be looked up all the same.
        settings: what hooks may do.
    """

    def __init__(
        self,
        kv: Store,
        refs: Refs,
        contents: Contents,
        object_bytes: ObjectBytes,
        namespaces: Namespaces,
        background: Background,
        clock: Callable[[], datetime],
        *,
        enabled: bool,
        settings: HookSettings,
    ) -> None:
        self._repositories = refs.repositories
        self._files = ActionFiles(refs, contents, object_bytes)
        self._results = Results(kv)
        self._outputs = Outputs(namespaces)
        self._background = background
        self._clock = clock
        self._enabled = enabled
        self._settings = settings

    def connect(self, call: ApiCall) -> None:
        """Let Lua scripts make calls of the API."""
        self._settings = replace(self._settings, call=call)

    def before(self, event: Event) -> str:
        """Run the hooks that must approve a change.

        Returns:
            Id of the run; there is a record of it only if there were hooks.

        Raises:
            HookAbortedError: 412, a hook failed.
            ActionFileError: 500, an action file cannot be used.
        """
        run_id = new_countdown_xid(self._clock())
        if not self._listens(event):
            return run_id
        try:
            runner = self._runner(event, run_id, "")
            with described(f"{event.type} hook aborted, run id '{run_id}'"):
                runner.run()
        except HookError as error:
            raise ActionFileError(f"{event.type} hook aborted, run id '{run_id}': {error}") from None
        return run_id

    def after(self, event: Event, run_before: str) -> None:
        """Run the hooks that want to know of a change, in the background; errors are logged."""
        if not self._listens(event):
            return
        try:
            if event.type in _TELLS_THE_COMMIT:
                self._tell_commit(event, run_before)
            runner = self._runner(event, new_countdown_xid(self._clock()), run_before)
        except Exception as error:  # the change has been made, so nothing here may fail it
            log.warning(
                "hooks of %s in %s were not run: %s", event.type, event.repository.name, _shown(error)
            )
            return
        if runner.anything:
            self._background.start(lambda: self._run_after(event, runner))

    def list_repository_runs(
        self, repository: str, *, branch: str = "", commit_id: str = "", after: str = "", amount: int = 100
    ) -> Page[RunResult]:
        """List runs, newest first; see `Results.runs`."""
        found = self._repositories.get(repository)
        return self._results.runs(found.name, branch=branch, commit_id=commit_id, after=after, amount=amount)

    def get_run(self, repository: str, run_id: str) -> RunResult:
        """Look a run up.

        Raises:
            MissingError: 404.
        """
        return self._results.run(self._repositories.get(repository).name, run_id)

    def list_run_hooks(
        self, repository: str, run_id: str, *, after: str = "", amount: int = 100
    ) -> Page[HookResult]:
        """List the hooks of a run; none for an unknown run."""
        found = self._repositories.get(repository)
        return self._results.hooks(found.name, run_id, after=after, amount=amount)

    def get_run_hook_output(self, repository: str, run_id: str, hook_run: str) -> bytes | None:
        """What a hook wrote; None if it was skipped.

        Raises:
            MissingError: 404.
            DataNotFoundError: 410, the log is gone.
        """
        found = self._repositories.get(repository)
        if self._results.hook(found.name, run_id, hook_run).skipped:
            return None
        return self._outputs.read_log(found, run_id, hook_run)

    def _listens(self, event: Event) -> bool:
        return self._enabled and not event.repository.read_only  # a real server runs no hooks there either

    def _runner(self, event: Event, run_id: str, run_before: str) -> Runner:
        with described(f"{event.type} hook aborted, run id '{run_id}'"):
            actions = self._files.matching(event)
        return Runner(
            event,
            run_id,
            run_before,
            actions,
            self._settings,
            self._clock,
            write_log=lambda hook_run, text: self._outputs.write_log(
                event.repository, run_id, hook_run, text
            ),
            save=lambda run, hooks: self._save(event.repository, run, hooks),
        )

    def _run_after(self, event: Event, runner: Runner) -> None:
        try:
            runner.run()
        except Exception as error:
            log.warning("hooks of %s in %s failed: %s", event.type, event.repository.name, _shown(error))

    def _tell_commit(self, event: Event, run_before: str) -> None:
        changed = self._results.add_commit(event.repository.name, run_before, event.commit_id)
        if changed is not None:
            self._outputs.write_manifest(event.repository, *changed)

    def _save(self, repository: Repository, run: RunResult, hooks: list[HookResult]) -> None:
        self._results.save(repository.name, run, hooks)
        self._outputs.write_manifest(repository, run, hooks)


def _shown(error: Exception) -> str:
    return " ".join(str(error).split()) if isinstance(error, DredgeError) else type(error).__name__
