"""One run: the hooks of one event, the actions side by side, the hooks of an action one after the other.

    0000_0000   first action, first hook
    0000_0001   first action, second hook: skipped if the first failed, unless its `if` says otherwise
    0001_0000   second action, first hook

Each hook that runs leaves a log; the run and all its hooks, also the skipped ones, leave results.

Source: lakeFS pkg/actions/service.go (runTasks, buildRunManifestFromTasks).
"""

from __future__ import annotations

import contextvars
import logging
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from dredge.graveler.actions.airflow import AirflowHook
from dredge.graveler.actions.conditions import holds
from dredge.graveler.actions.errors import HookError, aborted
from dredge.graveler.actions.hooks import Hook, HookSettings, Log, Run
from dredge.graveler.actions.identity import acting_user
from dredge.graveler.actions.lua import LuaHook
from dredge.graveler.actions.model import Action, ActionHook
from dredge.graveler.actions.results import HookResult, RunResult
from dredge.graveler.actions.text import NEVER
from dredge.graveler.actions.variables import Variables
from dredge.graveler.actions.webhook import WebhookHook
from dredge.graveler.catalog.events import Event

log = logging.getLogger(__name__)

_PARALLEL_ACTIONS_MAX = 16


@dataclass(slots=True)
class _Task:
    """A hook of a run, and what became of it."""

    id: str
    action: Action
    definition: ActionHook
    hook: Hook
    start: datetime = NEVER
    end: datetime = NEVER
    problem: HookError | None = None


class Runner:
    """Runs the hooks of one event.

    Args:
        event: the event.
        run_id: id of the run.
        run_before: id of the run before the change, for an event after it.
        actions: those for the event.
        settings: what hooks may do.
        clock: aware UTC time.
        write_log: writes the log of a hook, given its number.
        save: keeps the results of the run.

    Raises:
        HookError: a hook cannot be made from its definition; none has run.
    """

    def __init__(
        self,
        event: Event,
        run_id: str,
        run_before: str,
        actions: Sequence[Action],
        settings: HookSettings,
        clock: Callable[[], datetime],
        *,
        write_log: Callable[[str, str], None],
        save: Callable[[RunResult, list[HookResult]], None],
    ) -> None:
        self._event = event
        self._run_id = run_id
        self._run_before = run_before
        self._settings = settings
        self._clock = clock
        self._write_log = write_log
        self._save = save
        self._actions = [self._tasks_of(number, action) for number, action in enumerate(actions)]

    @property
    def anything(self) -> bool:
        """Whether there is a hook to run."""
        return any(self._actions)

    def run(self) -> None:
        """Run all hooks, and keep what became of them.

        Raises:
            HookAbortedError: one failed.
            ActionFileError: the condition of one cannot be evaluated.
        """
        if not self.anything:
            return
        problems = self._run_actions([tasks for tasks in self._actions if tasks])
        self._save(self._run_result(), [_result(task) for task in self._tasks()])
        if problems:
            raise aborted(problems)

    def _run_actions(self, actions: list[list[_Task]]) -> list[HookError]:
        """Run actions; gives the first problem of each that has one."""
        if len(actions) == 1:
            found = [self._run_action(actions[0])]
        else:
            with ThreadPoolExecutor(min(len(actions), _PARALLEL_ACTIONS_MAX), "actions") as pool:
                contexts = [contextvars.copy_context() for _ in actions]
                begun = [
                    pool.submit(context.run, self._run_action, tasks)
                    for context, tasks in zip(contexts, actions, strict=True)
                ]
                found = [each.result() for each in begun]
        return [problem for problem in found if problem is not None]

    def _run_action(self, tasks: list[_Task]) -> HookError | None:
        first: HookError | None = None
        for task in tasks:
            problem = self._run_task(task, failed=first is not None)
            first = first or problem
        return first

    def _run_task(self, task: _Task, *, failed: bool) -> HookError | None:
        """Run a hook unless its condition says no; gives its problem with the hook's name."""
        log_text = Log()
        try:
            if not holds(task.definition.condition, failed=failed):
                return None
            task.start = self._clock()
            self._run_hook(task, log_text)
        except HookError as error:
            task.start = self._clock() if task.start == NEVER else task.start
            why = task.hook.redaction.hide(str(error))
            why = f"action failed: {why}" if error.failed else why
            log_text.write(f"Error: {why}\n")
            where = (
                f"hook run id '{task.id}' failed on action '{task.action.name}' hook '{task.definition.id}'"
            )
            task.problem = HookError(f"{where}: {why}", failed=error.failed)
        task.end = self._clock()
        self._write_log(task.id, task.hook.redaction.hide(log_text.text()))
        return task.problem

    def _run_hook(self, task: _Task, log_text: Log) -> None:
        run = Run(self._run_id, self._run_before, task.action.name, task.definition.id, acting_user.get())
        try:
            task.hook.run(self._event, run, log_text)
        except HookError:
            raise
        except Exception as error:  # whatever it is, the hook has not approved
            trace = task.hook.redaction.hide(traceback.format_exc())
            log.error("hook %s of %s could not be run\n%s", run.hook, self._event.repository.name, trace)
            raise HookError(f"internal error: {type(error).__name__}") from None

    def _tasks_of(self, number: int, action: Action) -> list[_Task]:
        return [
            _Task(f"{number:04d}_{index:04d}", action, each, self._hook(each))
            for index, each in enumerate(action.hooks)
        ]

    def _hook(self, definition: ActionHook) -> Hook:
        variables = Variables(self._settings.environ)
        properties = definition.properties
        if definition.type == "webhook":
            return WebhookHook(properties, variables, self._clock)
        if definition.type == "airflow":
            return AirflowHook(properties, variables, self._clock, self._settings.poll_seconds)
        return LuaHook(properties, variables, self._settings)

    def _tasks(self) -> list[_Task]:
        return [task for tasks in self._actions for task in tasks]

    def _run_result(self) -> RunResult:
        tasks = self._tasks()
        ran = [task for task in tasks if task.start != NEVER]
        event = self._event
        return RunResult(
            id=self._run_id,
            event=str(event.type),
            source=event.source,
            branch=event.branch,
            commit_id=event.commit_id,
            start=min((task.start for task in ran), default=NEVER),
            end=max((task.end for task in ran), default=NEVER),
            passed=not any(task.problem for task in tasks),
        )


def _result(task: _Task) -> HookResult:
    return HookResult(
        id=task.id,
        hook=task.definition.id,
        action=task.action.name,
        start=task.start,
        end=task.end,
        passed=task.start != NEVER and task.problem is None,
    )
