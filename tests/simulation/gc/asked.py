"""What a run was asked for, as the rules about it need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.orchestrator import Orchestrated
from tests.simulation.truth import Policy


@dataclass(frozen=True)
class Asked:
    """What a run was asked for, as far as it keeps more.

    Attributes:
        begun: when.
        policy: the retention policy.
        read_kv: whether it reads staging records.
        approval: when a person must approve.
        most: objects that it may delete; None is no limit.
        dry_run: whether it is only to look.
        run: gives what became of it so far.
        undo: whether its deletions can be taken back.
        hours: how long an answer is waited for.
        waits: whether it may delete only what another run found a grace before.
    """

    begun: float
    policy: Policy | None
    read_kv: bool
    approval: str
    most: int | None
    dry_run: bool
    run: Callable[[], Orchestrated]
    undo: str
    hours: float = 12.0
    waits: bool = False
