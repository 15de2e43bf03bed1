"""People's actions after a refusal: restore lost commits, give them up, take over a namespace, lift a block,
acknowledge an alarm.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dredge.gc.run import open_state
from dredge.gc.witness.people import LostCommits, forget_lost, lift_block, take_over
from dredge.lakefs.writing import LakeFSWriter
from dredge.undo.alarms import acknowledge_alarms
from tests.simulation.gc.people import People
from tests.simulation.oracle import Oracle

WHY = "a person looked into it"
KEEP_UNNAMED_DAYS = 30.0


@dataclass
class Statements:
    people: People  # do it, with retries
    oracle: Oracle  # called with the given-up content
    namespace: str  # URI
    client: Callable[[], LakeFSWriter]  # a client of production's servers that may write

    @property
    def verbs(self) -> dict[str, Callable[..., None]]:
        return {
            "make lost known": self._make_known,
            "forget lost": self._forget,
            "own": self._own,
            "lift block": self._lift,
            "acknowledge": self._acknowledge,
        }

    def end_refusal(self, give_up: bool) -> None:
        for verb in ("forget lost" if give_up else "make lost known", "own", "lift block", "acknowledge"):
            self.verbs[verb]()

    def _make_known(self) -> None:
        def body(_holder: str, _client: object, _clock: object) -> Any:
            client = self.client()
            found = LostCommits.find(client, self.people.repository, KEEP_UNNAMED_DAYS)
            return list(found.restore(client, [item.name for item in found.found]))

        truth = self.oracle.truth
        lost = dict(truth.lost)
        if self.people.side_run("lost", body) is None:
            return
        named = {commit.metarange_id for commit in truth.commits.values()}
        for name, commit in lost.items():
            if commit.metarange_id not in named:
                self.people.simulation.violate("lost", f"{name} was to be made known again, and is not")
            truth.lost.pop(name, None)

    def _forget(self) -> None:
        self.oracle.truth.give_up()
        self.people.side_run(
            "forget",
            lambda _holder, client, _clock: forget_lost(
                client, self.people.repository, WHY, KEEP_UNNAMED_DAYS
            ),
        )

    def _own(self) -> None:
        self.people.side_run(
            "own", lambda _holder, client, _clock: take_over(self.people.repository, WHY, "anna", client)
        )

    def _lift(self) -> None:
        self.people.side_run(
            "lift", lambda _holder, client, _clock: lift_block(self.people.repository, WHY, "anna", client)
        )

    def _acknowledge(self) -> None:
        def body(_holder: str, _client: object, _clock: object) -> Any:
            return acknowledge_alarms(open_state(self.namespace), self.people.repository, WHY, "anna")

        self.people.side_run("acknowledge", body)
