"""Accidents of the refs of an Icechunk repository: they are restored to an earlier day, with all later commits still in
the store; or a writer of an old release continues with the refs of before an upgrade.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from dredge.errors import DredgeError
from tests.simulation.icechunk.oracle import Oracle
from tests.simulation.icechunk.writers import ROOT, Writers, _pointer


@dataclass
class Rollback:
    writers: Writers  # of the repository
    oracle: Oracle  # watches it
    # refs (spec 1) or the repo info (spec 2) as they were, by key
    backup: dict[str, bytes] = field(default_factory=dict)
    spec: int = 0  # of the backup; 0 for none
    copies: frozenset[str] = frozenset()  # of the repo info, at the time of the backup

    @property
    def verbs(self) -> dict[str, Callable[..., None]]:
        return {
            "back up refs": self._back_up,
            "put refs back": self._put_back,
            "old writer commits": self._commit_by_old_writer,
        }

    def _back_up(self) -> None:
        self.spec = self.writers.spec
        self.backup = {key: self.oracle.bucket.objects[key].data for key in self._keys()}
        self.copies = frozenset(self._all_copies())

    def _put_back(self, copies: bool = False) -> None:
        if self.spec != self.writers.spec:
            return
        bucket = self.oracle.bucket

        def deed() -> None:
            with self.oracle.losing():
                for key in [key for key in self._keys() if key not in self.backup]:
                    bucket.lose(key)
                for key, data in self.backup.items():
                    if key not in bucket.objects or bucket.objects[key].data != data:
                        bucket.write(key, data)
                for key in [key for key in self._all_copies() if copies and key not in self.copies]:
                    bucket.lose(key)

        self.writers.simulation.doors.call("store", "put", deed, {}, "refs of an earlier day")
        self.writers.simulation.states["refs put back"] += 1

    def _commit_by_old_writer(self, branch: str, count: int) -> None:
        writers = self.writers
        if writers.spec != 2:
            return
        with suppress(DredgeError):
            key = writers._ref("branch", branch)
            etag, head = writers._writer.stat(key).etag, json.loads(writers._writer.get(key))["snapshot"]
            made = writers._snapshot(head, writers._session(head, count, 0.0), spec=1)
            writers._writer.put_if_match(key, _pointer(made.id), etag or "")
            self.oracle.lost.add(made.id)
            self.oracle.was_put_back = True
            writers.simulation.states["committed by an old writer"] += 1

    def _all_copies(self) -> list[str]:
        return [key for key in self.oracle.bucket.keys if key.startswith(f"{ROOT}overwritten/")]

    def _keys(self) -> list[str]:
        where = f"{ROOT}refs/" if self.writers.spec == 1 else f"{ROOT}repo"
        return [key for key in self.oracle.bucket.keys if key.startswith(where)]
