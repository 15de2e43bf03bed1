"""The arguments of a run, for the rules."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.orchestrator import Orchestrated
from tests.simulation.truth import Policy


@dataclass(frozen=True)
class Asked:
    """The arguments of a run, as far as they keep more objects."""

    begun: float  # when
    policy: Policy | None  # the retention policy
    read_kv: bool  # whether it reads staging records
    approval: str  # when a person must approve
    most: int | None  # objects that it may delete; None is no limit
    dry_run: bool  # whether it is only to look
    run: Callable[[], Orchestrated]  # gives what became of it so far
    undo: str  # whether its deletions can be restored
    hours: float = 12.0  # how long an answer is waited for
    waits: bool = False  # whether it may delete only what another run found a grace before
