"""Accidents of a key-value store outside its servers: restored records, and lost rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dredge.lakefs.files import messages
from lakefs_embedded.kv import PredicateFailedError
from tests.simulation.history import Simulation
from tests.simulation.kv import WatchedKV
from tests.simulation.lakefs import Server
from tests.simulation.noise import stable_hash
from tests.simulation.trash.named import REPOSITORIES, birth_of, life_of, read_named
from tests.simulation.trash.oracle import Oracle

TABLES = 3
"""Tables of partitions, by their hash."""


@dataclass
class Disasters:
    simulation: Simulation  # of the history
    kv: WatchedKV  # past all doors
    oracle: Oracle  # knows the removed rows
    # instances with a lost commit, also after a restore of their record
    damaged: set[bytes] = field(default_factory=set)
    servers: Sequence[Server] = ()  # that use the store
    backup: dict[tuple[bytes, bytes], bytes] | None = None  # all rows as they were, by partition and key
    torn: bool = False  # whether only some partitions were restored
    refusable: bool = False  # whether rows were restored, without an acceptance

    @property
    def verbs(self) -> dict[str, Callable[..., None]]:
        return {
            "give the record back": self.give_back,
            "lose the first commit": self.lose_first_commit,
            "back up": self._back_up,
            "put database back": self._put_back,
            "put table back": self._put_table_back,
        }

    def _back_up(self) -> None:
        self.backup = self.kv.rows()

    def _put_back(self) -> None:
        self._restore(lambda _partition: True)

    def _put_table_back(self, number: int) -> None:
        self.torn = self.backup is not None
        self._restore(lambda partition: stable_hash(partition) % TABLES == number % TABLES)

    def accept(self) -> None:
        """A person accepts a restored store: the cleaner begins with an empty folder of state."""
        self.refusable = False
        ops = self.simulation.stores.bucket("ops")
        for key in list(ops.keys):
            ops.lose(key)
        self.oracle.torn.clear()
        self.oracle.removed.clear()

    def _restore(self, among: Callable[[bytes], bool]) -> None:
        if self.backup is None:
            return
        self.refusable = True
        for server in self.servers:
            server.process.kill()
        with self.oracle.losing():
            self.kv.put_back(self.backup, among)
        for server in self.servers:
            server.start()
            server.catalog.resume()
        self.simulation.states["put back to an earlier day"] += 1

    def give_back(self, name: str) -> None:
        """Restore the last record of a deleted repository, if the cleaner has removed none of its rows yet."""

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
        """A repaired store lacks the first commit of an instance without a record."""
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
