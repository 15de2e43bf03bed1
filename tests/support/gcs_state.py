"""State of the small Google Cloud Storage of the tests: buckets, generations, uploads; no HTTP."""

import base64
import hashlib
import itertools
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import crc32c


class Refused(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


_numbers = itertools.count(time.time_ns() // 1000)


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Generation:
    name: str
    data: bytes
    about: dict[str, Any]
    number: int = field(default_factory=lambda: next(_numbers))
    updated: str = field(default_factory=now_text)
    deleted: str | None = None
    composed: bool = False

    def resource(self, bucket: str) -> dict[str, Any]:
        told = {
            "kind": "storage#object",
            "name": self.name,
            "bucket": bucket,
            "generation": str(self.number),
            "metageneration": "1",
            "size": str(len(self.data)),
            "timeCreated": self.updated,
            "updated": self.updated,
            "storageClass": "STANDARD",
            "crc32c": base64.b64encode(crc32c.crc32c(self.data).to_bytes(4, "big")).decode(),
            "etag": f"CJ{self.number}EAE=",
            **self.about,
        }
        if not self.composed:
            digest = hashlib.md5(self.data, usedforsecurity=False).digest()
            told["md5Hash"] = base64.b64encode(digest).decode()
        if self.deleted:
            told["timeDeleted"] = self.deleted
        return told


@dataclass
class Bucket:
    """A bucket; conditions and versions are as in the service."""

    versioned: bool = False
    soft_delete_seconds: int = 0
    live: dict[str, Generation] = field(default_factory=dict)
    older: dict[str, list[Generation]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def get(self, name: str, generation: str | None = None) -> Generation:
        found = self.live.get(name)
        if generation and (found is None or str(found.number) != generation):
            found = next((old for old in self.older.get(name, []) if str(old.number) == generation), None)
        if found is None:
            raise Refused(404, "notFound", f"No such object: bucket/{name}")
        return found

    def check(self, name: str, condition: str | None) -> None:
        """A condition on the current generation; "0" is none."""
        found = self.live.get(name)
        if condition is not None and condition != (str(found.number) if found else "0"):
            raise Refused(
                412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold."
            )

    def write(self, made: Generation, condition: str | None = None) -> Generation:
        if made.name in {"", ".", ".."} or len(made.name.encode()) > 1024 or set(made.name) & {"\r", "\n"}:
            raise Refused(400, "invalid", "Invalid object name")
        with self.lock:
            self.check(made.name, condition)
            self._supersede(made.name)
            self.live[made.name] = made
        return made

    def delete(self, name: str, condition: str | None, generation: str | None) -> None:
        with self.lock:
            self.get(name, generation)
            self.check(name, condition)
            current = self.live.get(name)
            if generation is None:
                self._supersede(name)
            elif current is not None and str(current.number) == generation:
                del self.live[name]
            else:
                self.older[name] = [old for old in self.older[name] if str(old.number) != generation]

    def listed(self, versions: bool) -> list[Generation]:
        with self.lock:
            found = list(self.live.values())
            if versions:
                found += [old for olds in self.older.values() for old in olds]
        return sorted(found, key=lambda item: (item.name.encode(), item.number))

    def _supersede(self, name: str) -> None:
        found = self.live.pop(name, None)
        if found is not None and self.versioned:
            found.deleted = now_text()
            self.older.setdefault(name, []).append(found)
