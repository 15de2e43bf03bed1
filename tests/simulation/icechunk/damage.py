"""Damage to the files of an Icechunk repository, repaired later: flipped bits, wrong files, and an inventory.

A manifest may have a wrong chunk id for a while, after a flipped bit in the store or on its way; a snapshot's file may
be replaced by one with other manifests; a head or a part of the index may be unreadable; the store may keep
unreferenced files.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dredge.icechunk.ids import decode_id, encode_id
from tests.simulation.buckets import Stored
from tests.simulation.icechunk.files import chunk_manifest, snapshot_file
from tests.simulation.icechunk.oracle import Oracle
from tests.simulation.icechunk.writers import ROOT, Writers

INVENTORY = "memory://inventory/tables"
WRONG = "f" * 32
"""ETag of a replaced file."""


@dataclass
class Damage:
    writers: Writers  # of the repository
    oracle: Oracle  # watches it
    damaged: dict[str, Stored] = field(default_factory=dict)  # files as they were, by key
    was_damaged: bool = False

    @property
    def verbs(self) -> dict[str, Callable[..., None]]:
        return {
            "flip a manifest": self._flip_a_manifest,
            "wrong snapshot": self._wrong_snapshot,
            "flip a head": self._flip_a_head,
            "flip a part": self._flip_a_part,
            "hold a file": self._hold_a_file,
            "inventory": self._inventory,
        }

    def mend(self) -> None:
        """Repair all damage, and follow the messages' advice: the index since then is dropped."""
        self.oracle.bucket.on_hold.clear()
        for key in list(self.damaged):
            self._mend(key)
        if not self.was_damaged:
            return
        bucket = self.oracle.bucket
        for key in [key for key in bucket.keys if key.startswith(f"{ROOT}_dredge/index/")]:
            bucket.lose(key)
        self.oracle.own.heads.clear()

    def _flip_a_manifest(self, number: int, seconds: float) -> None:
        bucket = self.oracle.bucket
        known = [
            name
            for name in sorted(self.writers.chunks, key=self._newest_first)
            if f"{ROOT}manifests/{name}" in bucket.objects and self.writers.chunks[name]
        ]
        if not known:
            return
        chosen = known[number % len(known)]
        chunks = list(self.writers.chunks[chosen])
        raw = bytearray(decode_id(chunks[-1]))
        raw[5] ^= 4
        chunks[-1] = encode_id(bytes(raw))
        self._damage(f"{ROOT}manifests/{chosen}", chunk_manifest(chosen, chunks), seconds)

    def _newest_first(self, manifest: str) -> tuple[float, str]:
        stored = self.oracle.bucket.objects.get(f"{ROOT}manifests/{manifest}")
        return (-stored.modified.timestamp() if stored else 0.0, manifest)

    def _wrong_snapshot(self, number: int, seconds: float) -> None:
        bucket = self.oracle.bucket
        known = [
            name
            for name in sorted(self.oracle.read_by_a_run & self.oracle.reached)
            if f"{ROOT}snapshots/{name}" in bucket.objects and self.writers.snapshots[name].manifests
        ]
        if self.writers.spec != 1 or not known:
            return
        chosen = self.writers.snapshots[known[number % len(known)]]
        others = [
            name
            for name in sorted(self.writers.chunks)
            if f"{ROOT}manifests/{name}" in bucket.objects
            and name not in chosen.manifests
            and self.writers.chunks[name]
        ]
        if not others:
            return
        other = others[number % len(others)]
        lost = sorted(chosen.manifests)[number % len(chosen.manifests)]
        manifests = {name: refs for name, refs in chosen.manifests.items() if name != lost}
        manifests[other] = len(self.writers.chunks[other])
        wrong = replace(chosen, parent=self.oracle.parents[chosen.id], manifests=manifests)
        key = f"{ROOT}snapshots/{chosen.id}"
        if key in self.damaged:
            return
        self.damaged[key] = bucket.objects[key]
        bucket.restore(key, replace(bucket.objects[key], data=snapshot_file(wrong, 1), etag=WRONG))
        self._later(key, seconds)

    def _flip_a_head(self, number: int, seconds: float) -> None:
        heads = [key for key in self.oracle.bucket.keys if key.startswith(f"{ROOT}_dredge/index/heads/")]
        if heads:
            key = heads[number % len(heads)]
            data = self.oracle.bucket.objects[key].data
            self._damage(key, data[:-2] + b"  ", seconds)

    def _flip_a_part(self, number: int, seconds: float) -> None:
        where = f"{ROOT}_dredge/index/parts/"
        parts = [key for key in self.oracle.bucket.keys if key.startswith(where) and "-manifests-" in key]
        if parts:
            key = parts[number % len(parts)]
            data = self.oracle.bucket.objects[key].data
            self._damage(key, data[:-2] + b"  ", seconds)

    def _hold_a_file(self, folder: str, number: int) -> None:
        bucket = self.oracle.bucket
        found = [
            key
            for key in self.oracle.unneeded()
            if key.startswith(f"{ROOT}{folder}/") and key in bucket.objects
        ]
        if found:
            bucket.on_hold.add(found[number % len(found)])
            self.oracle.held.add(found[number % len(found)])
            self.writers.simulation.states["held by the store"] += 1

    def _damage(self, key: str, data: bytes, seconds: float) -> None:
        bucket = self.oracle.bucket
        if key not in bucket.objects or key in self.damaged:
            return
        self.damaged[key] = bucket.objects[key]
        bucket.objects[key] = replace(bucket.objects[key], data=data)
        self._later(key, seconds)

    def _later(self, key: str, seconds: float) -> None:
        self.was_damaged = True
        self.oracle.damaged.add(key)
        self.writers.simulation.states["damaged"] += 1
        if seconds and self.writers.simulation.scheduler.current is not None:
            self.writers.simulation.scheduler.wait(seconds)
            self._mend(key)

    def _mend(self, key: str) -> None:
        stored = self.damaged.pop(key, None)
        self.oracle.damaged.discard(key)
        now = self.oracle.bucket.objects.get(key)
        if stored is None or now is None:
            return
        name = key.removeprefix(f"{ROOT}snapshots/")
        if name != key and now.etag != WRONG:
            # An expiration has given the wrong file another parent: only its references are wrong.
            chosen = replace(self.writers.snapshots[name], parent=self.oracle.parents[name])
            stored = replace(now, data=snapshot_file(chosen, 1))
        self.oracle.bucket.restore(key, stored)

    def _inventory(self) -> None:
        bucket = self.oracle.bucket
        rows = ["key,size,last_modified"]
        rows += [
            f"{key},{len(stored.data)},{stored.modified:%Y-%m-%dT%H:%M:%S.%fZ}"
            for key, stored in sorted(bucket.objects.items())
        ]
        made = self.writers.simulation.stores.bucket("inventory")
        made.write("tables/now.csv", "\n".join([*rows, ""]).encode())
