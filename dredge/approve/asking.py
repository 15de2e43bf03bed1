"""What a run must have that asks a person. The plans and runs of the collectors have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from dredge.runs.folder import RunFolder
from dredge.runs.output import StepOutput
from dredge.runs.perform import StepRecord
from dredge.runs.run import RunPlan
from dredge.runs.summary import StepSummary
from dredge.storage import ObjectWriter
from dredge.undo.ways import UndoWay


class AskingSafety(Protocol):
    """Margins; the collectors' own types describe them."""

    @property
    def clock_skew_seconds_max(self) -> float:
        """Largest difference between this machine's clock and the store's."""

    @property
    def mark_age_hours_max(self) -> float:
        """A mark older than this cannot be swept."""

    @property
    def lease_seconds(self) -> float:
        """How long a lease lives without being renewed."""


class AskingConfig(Protocol):
    """What a user asked for; `dredge.approve.settings` describes it."""

    @property
    def approval(self) -> str:
        """When somebody is asked."""

    @property
    def approval_hours(self) -> float:
        """How long an answer is waited for."""

    @property
    def approver_ids(self) -> tuple[str, ...]:
        """Who may answer; () is everybody."""

    @property
    def safety(self) -> AskingSafety:
        """Margins."""


class AskingPlan(RunPlan, Protocol):
    """A plan."""

    @property
    def created_at(self) -> datetime:
        """The store's time when it was made."""

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be deleted."""

    @property
    def mode(self) -> str:
        """Whether the run reads everything or what changed."""

    @property
    def why_mode(self) -> str:
        """Half a sentence."""

    @property
    def undo(self) -> UndoWay:
        """How what it deletes can be taken back."""

    @property
    def config(self) -> AskingConfig:
        """What the user asked for."""


class AskingRun(Protocol):
    """A run, as its driver works on it; see `dredge.runs.run`."""

    @property
    def plan(self) -> AskingPlan:
        """Its plan."""

    @property
    def folder(self) -> RunFolder:
        """Its folder."""

    @property
    def state(self) -> ObjectWriter:
        """On the folder with the lease."""

    def store_now(self) -> datetime:
        """The object store's time."""

    def step(
        self,
        output: type[StepOutput],
        body: Callable[[StepRecord], None],
        inputs: Sequence[type[StepOutput]] | None = None,
    ) -> StepSummary:
        """Do a step."""
