"""Accidents of the store: tables and objects lost, damaged or locked, and other repositories in the namespace."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from dredge.errors import DredgeError, UnavailableError
from dredge.storage import open_writer
from dredge.xid import new_descending_xid
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.errors import RepositoryNotFoundError
from tests.simulation.buckets import Bucket, Stored
from tests.simulation.trash.rows import DoorRows

INDEX = "_lakefs/retention/gc/dredge/index/"
SCANS = "_lakefs/retention/gc/uncommitted/"
COMMITS = "_lakefs/retention/gc/commits/"
RUNS = "_lakefs/retention/gc/unified/"
INNER = "data/inner/"
"""The place of another repository, below the data of this one."""
_TABLE = re.compile(r"_lakefs/[0-9a-f]{64}")


@dataclass
class Mishaps:
    bucket: Bucket  # that holds the namespace
    root: str  # of the namespace in the bucket, with a trailing slash
    namespace: str  # URI
    # told of another repository in the same namespace, and of its end
    note_twin: Callable[[bool], None]
    serve: Callable[[Callable[[Catalog], Any]], Any]  # has a server do something with its catalog
    note_other: Callable[[], None] = lambda: None  # called at the end of a run of another collector
    rows: DoorRows | None = None  # the key-value store as a collector reads it
    # called when a collector reads a stale copy
    note_copy: Callable[[], None] = lambda: None
    whole: dict[str, Stored] = field(default_factory=dict)  # the damaged objects before their damage
    twin: bool = False  # whether another repository has the same namespace
    inner: bool = False

    @property
    def verbs(self) -> dict[str, Callable[..., None]]:
        return {
            "lose range": lambda number: self._break(self._tables(), number, self.bucket.lose),
            "damage range": lambda number: self._break(self._tables(), number, self.bucket.flip),
            "lose page": self._lose_page,
            "damage run": self._damage_run,
            "empty list": self._empty_list,
            "other collector": self._other_collector,
            "lose index": self._lose_index,
            "lock away": self._lock_away,
            "mend": self.mend,
            "nest": self._nest,
            "nest unseen": self._nest_unseen,
            "share": self._share,
            "damage copy": self._damage_copy,
            "put over": self._put_over,
            "copy is read": self._read_copy,
        }

    def mend(self) -> None:
        for key, stored in self.whole.items():
            self.bucket.restore(key, stored)
        self.whole.clear()
        if self.rows is not None:
            self.rows.catch_up()

    def leave(self) -> None:
        for name, present in (("inner", self.inner), ("twin", self.twin)):
            if present:
                with suppress(RepositoryNotFoundError):  # its record was not written, in spite of the answer
                    self.serve(lambda catalog, name=name: catalog.repositories.delete_repository(name))  # type: ignore[misc]
        self.inner = self.twin = False
        self.note_twin(False)
        for key in list(self._below(INNER)):
            self.bucket.lose(key)

    def _break(self, keys: Iterator[str], number: int, how: Callable[[str], None]) -> None:
        found = list(keys)
        if found:
            key = found[number % len(found)]
            self.whole.setdefault(key, self.bucket.objects[key])
            how(key)

    def _lose_page(self, number: int) -> None:
        for each in range(len(list(self._below(SCANS))) if number < 0 else 1):
            self._break(self._below(SCANS), max(number, 0) * each, self.bucket.lose)

    def _damage_run(self, what: str, number: int) -> None:
        last = {"plan": "/plan.json", "mark": "/mark_uncommitted/_SUCCESS.json"}[what]
        keys = sorted((key for key in self._below(RUNS) if key.endswith(last)), reverse=True)
        self._break(iter(keys), number, self._cut)

    def _damage_copy(self, number: int) -> None:
        keys = [key for key in self._below(RUNS) if "/quarantine/data/" in key]
        if keys:
            self._cut(keys[number % len(keys)])

    def _put_over(self, data: bytes) -> None:
        addresses = [key.removeprefix(self.root) for key in self._below("data/orphans/")]
        if addresses:
            self._write(addresses[-1], data)

    def _write(self, key: str, data: bytes) -> None:
        with suppress(UnavailableError):  # it does not try again
            open_writer(self.namespace).put(key, data)

    def _read_copy(self) -> None:
        if self.rows is not None:
            self.rows.fall_behind()
            self.note_copy()

    def _cut(self, key: str) -> None:
        stored = self.bucket.objects[key]
        self.bucket.objects[key] = replace(stored, data=stored.data[: len(stored.data) // 2])

    def _empty_list(self) -> None:
        keys = [key for key in self._below(COMMITS) if key.endswith(".csv")]
        if keys:
            key = max(keys, key=lambda key: self.bucket.objects[key].modified)
            stored = self.bucket.objects[key]
            self.bucket.objects[key] = replace(stored, data=stored.data.partition(b"\n")[0] + b"\n")

    def _other_collector(self) -> None:
        run_id = new_descending_xid(self.bucket.clock())
        self._write(f"{RUNS}{run_id}/summary.json", b"{}")
        if f"{self.root}{RUNS}{run_id}/summary.json" in self.bucket.objects:
            self.note_other()

    def _tables(self) -> Iterator[str]:
        return (key for key in self._below("_lakefs/") if _TABLE.fullmatch(key.removeprefix(self.root)))

    def _below(self, folder: str) -> Iterator[str]:
        return (key for key in list(self.bucket.keys) if key.startswith(self.root + folder))

    def _lose_index(self, number: int) -> None:
        for at, key in enumerate(self._below(INDEX)):
            if number % 4 == 0 or at % 4 == number % 4:
                self.bucket.lose(key)

    def _lock_away(self, number: int) -> None:
        keys = list(self._below("data/"))
        if keys:
            calls = (
                ("get", "get_range", "open_read", "stat") if number % 2 else ("get", "get_range", "open_read")
            )
            self.bucket.locked[keys[number % len(keys)]] = frozenset(calls)

    def _nest(self) -> None:
        self._quietly(
            lambda catalog: catalog.repositories.create_repository("inner", self.namespace + "/data/inner")
        )
        self.inner = True
        for path in ("x", "y"):
            self._quietly(
                lambda catalog, path=path: catalog.objects.upload_object("inner", "main", path, b"x")
            )  # type: ignore[misc]

    def _nest_unseen(self) -> None:
        writer = open_writer(self.namespace)
        # Servers claim a namespace below `_lakefs/` before they write anything else; and the weather is theirs, too.
        with suppress(DredgeError):
            writer.put(f"{INNER}_lakefs/{'ab' * 32}", b"metadata")
            writer.put(f"{INNER}dummy", b"this is dummy data")
            writer.put(f"{INNER}data/gg/xx", b"x")

    def _share(self) -> None:
        is_made = self._quietly(
            lambda catalog: catalog.repositories.create_repository("twin", self.namespace, bare=True)
        )
        self.twin = True
        if is_made:
            self.note_twin(True)

    def _quietly(self, ask: Callable[[Catalog], Any]) -> bool:
        try:
            self.serve(ask)
        except DredgeError:
            return False
        return True
