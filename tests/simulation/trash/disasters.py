"""What befalls a key-value store past its servers: people who put records back, and rows that are lost."""

from __future__ import annotations

from dataclasses import dataclass, field

from dredge.graveler import messages
from dredge.kv import PredicateFailedError
from tests.simulation.history import Simulation
from tests.simulation.kv import WatchedKV
from tests.simulation.trash.named import REPOSITORIES, birth_of, life_of, read_named
from tests.simulation.trash.oracle import Oracle


@dataclass
class Disasters:
    """Happens to a store.

    Attributes:
        simulation: of the history.
        kv: past all doors.
        oracle: knows what was removed.
        damaged: lives that lost a commit: whoever gets the record of one back finds it so.
    """

    simulation: Simulation
    kv: WatchedKV
    oracle: Oracle
    damaged: set[bytes] = field(default_factory=set)

    def give_back(self, name: str) -> None:
        """Somebody gives a deleted repository its last record back, if the cleaner has taken nothing of it yet."""

        def deed() -> None:
            value = self.oracle.records.get(name)
            if value is None or self.oracle.has_removed(life_of(value).partition):
                return
            try:
                self.kv.set_if(REPOSITORIES, b"repos/" + name.encode(), value, None)
            except PredicateFailedError:
                return  # there is a later life
            self.simulation.states["record given back"] += 1

        self.simulation.doors.call("kv", "set_if", deed, {}, name)

    def lose_first_commit(self, name: str) -> None:
        """A store that was mended lacks the first commit of a life that has no record."""
        recorded = read_named(self.kv).lives
        for partition in list(self.kv._partitions):
            if birth_of(partition) is None or partition[:-21] != name.encode() or partition in recorded:
                continue
            for entry in list(self.kv.scan(partition, b"commits/")):
                if not entry.key.startswith(b"commits/"):
                    break
                if not messages.CommitData.FromString(entry.value).parents:
                    self.kv.delete(partition, entry.key)
                    self.damaged.add(partition)
                    self.simulation.states["first commit lost"] += 1
