"""The state that an optimized run builds on, with its files at hand."""

from __future__ import annotations

from dataclasses import dataclass

from dredge.errors import FormatError, NotFoundError
from dredge.gc.config import CLEAN
from dredge.gc.index.ranges import Metaranges, Ranges, facts_of
from dredge.gc.run import Run
from dredge.gc.state.model import RunState
from dredge.gc.state.store import StateStore
from dredge.runs.folder import RunFolder
from dredge.runs.versions import Version
from dredge.storage import open_writer


@dataclass(frozen=True, slots=True)
class Base:
    """What an earlier run left.

    Attributes:
        state: the state.
        folder: of the run that left it.
    """

    state: RunState
    folder: RunFolder

    def metaranges(self) -> Metaranges:
        """Which metarange names which ranges."""
        tables = self.folder.read_parts([self.state.named_ranges, self.state.named])
        return Metaranges.from_tables(*tables)

    def ranges(self) -> Ranges:
        """The ranges that were active."""
        return dict(facts_of(self.folder.read_part(self.state.ranges)))

    def looked_at(self) -> set[str]:
        """Files below `_lakefs/` that need no further look."""
        return set(self.folder.read_part(self.state.looked_at)["name"].to_pylist())


def base_of(run: Run) -> Base | None:
    """Open the state that a run builds on; None for a clean run.

    Raises:
        FormatError: the state that the plan names is not as it was.
    """
    plan = run.plan
    if plan.mode == CLEAN or plan.state is None:
        return None
    return open_base(run, plan.state)


def open_base(run: Run, version: Version) -> Base:
    """Open a version of the state; raises FormatError when it is not as it was."""
    try:
        state = StateStore(run.state, run.options).load(version)
    except (NotFoundError, KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{version.name}, which the run builds on, is not as it was: {error}. Nothing was deleted. Start"
            " a clean run."
        ) from None
    return Base(state, RunFolder(open_writer(state.run_uri, run.options), state.run_id))
