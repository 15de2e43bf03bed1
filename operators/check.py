"""The first task of a DAG: with the Param `check_only`, a preflight instead of a run; each collector has one of its
own."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.utils.skipmixin import SkipMixin
from airflow.sdk import BaseOperator

from airflow_dredge.operators.failures import reported
from dredge.errors import RefusedError
from dredge.settings import setting, truth

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.runs.preflight import Preflight


def check_only_setting() -> Any:
    """Make the field of the Param."""
    return setting(
        "Check only",
        "Check everything that a run needs (`dredge … check`, a few seconds) and skip the run. The task `check` lists"
        " the results, and fails where a run would.",
        default=False,
    )


class CheckOperator(BaseOperator, SkipMixin):
    """Ask for everything that a run will need, where only that is wanted, and skip the run; else go on at once.

    Returns the lines of the preflight.

    :param check_only: whether there is to be no run (templated)
    """

    def __init__(self, *, check_only: Any = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.check_only = check_only

    @abstractmethod
    def ask(self) -> Preflight:
        """Do the preflight."""

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Check, or go on.

        :raises RefusedError: a run would be refused, or fail
        """
        if not truth("check_only", self.check_only):
            return {"status": "not_asked"}
        found = self.ask()
        for line in found.lines:
            self.log.info(
                "%s %s: %s%s", line.level, line.check, line.text, f" → {line.todo}" if line.todo else ""
            )
        bad = [f"{line.check}: {line.text} → {line.todo}" for line in found.lines if line.level == "error"]
        if bad:
            raise RefusedError(f"{found.about}: a run would fail. {'; '.join(bad)}")
        context["ti"].xcom_push("return_value", {"status": found.level, **found.to_report()})
        # Skipped, not left to their trigger rules: the task that reports runs whatever happened before it. It raises.
        self.skip(ti=context["ti"], tasks=self.get_flat_relatives())
        raise AssertionError("unreachable")
