"""Deleting from Google Cloud Storage: 100 keys a request, several requests at once, and the truth about every key.

Each part of a batch has an answer of its own. What the service was too busy for is asked again at half the rate; a part
whose answer is missing is asked again too: deleting twice is harmless, guessing is not. Where the bucket keeps
versions, the generation is looked at first, in a batch as well, and the deletion is on condition that it is still
that one: so the ledger can say which version a deletion left, and what is written meanwhile stays.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from dredge.errors import DredgeError
from dredge.storage.gcs.batches import BATCH_PARTS, Part, PartAnswer, send_batch
from dredge.storage.gcs.errors import PASSING, THROTTLED, is_about_bucket, reason
from dredge.storage.gcs.names import Place
from dredge.storage.gcs.resources import FIELDS, read_resource
from dredge.storage.gcs.versions import GcsVersions, marker_id
from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, MaySend, always
from dredge.storage.options import StorageOptions
from dredge.storage.rate import AdaptiveRate

ATTEMPTS = 8
UNCLEAR = "UnclearAnswer"
_CHANGED = "ChangedMeanwhile"


class GcsDeleter:
    """Deletes objects below a prefix."""

    def __init__(self, location: Location, options: StorageOptions, rate: AdaptiveRate | None = None) -> None:
        self._location = location
        self._options = options
        self._place = Place.of(location)
        self._rate = rate or AdaptiveRate()
        self._versioned: bool | None = None
        self._sleep: Callable[[float], None] = time.sleep

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._location, self._options)

    def __repr__(self) -> str:
        return f"GcsDeleter({self.uri!r})"

    @property
    def uri(self) -> str:
        """Where the keys begin, without a trailing slash."""
        return self._location.uri

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete each key; see `ObjectDeleter.delete`."""
        distinct = list(dict.fromkeys(keys))
        outcomes = {
            key: DeleteOutcome(key, "not_addressable") for key in distinct if not self._place.holds(key)
        }
        wanted = [key for key in distinct if key not in outcomes]
        batches = [wanted[i : i + BATCH_PARTS] for i in range(0, len(wanted), BATCH_PARTS)]
        if batches:
            self._look_at_versioning()
            with ThreadPoolExecutor(
                min(self._options.delete_requests, len(batches)), thread_name_prefix="dredge-delete"
            ) as pool:
                for found in pool.map(lambda batch: self._delete_batch(batch, may_send), batches):
                    outcomes |= found
        return [outcomes[key] for key in keys]

    def _look_at_versioning(self) -> None:
        """Learn once whether deleting leaves versions, whose names must be recorded; raises for a missing bucket."""
        if self._versioned is None:
            found = GcsVersions(self._location, self._options).versioning()
            self._versioned = found in {"enabled", "unknown"}

    def _delete_batch(self, batch: list[str], may_send: MaySend) -> dict[str, DeleteOutcome]:
        """Delete one request's worth of keys, with as many attempts as it needs."""
        outcomes: dict[str, DeleteOutcome] = {}
        doubts: dict[str, str] = {}
        left = batch
        for attempt in range(ATTEMPTS):
            self._rate.acquire(len(left))
            if not may_send():
                return {key: DeleteOutcome(key, "failed", NOT_SENT) for key in left} | outcomes
            found = self._send(left, may_send)
            again = [item.key for item in found if _may_pass(item)]
            for item in found:
                if item.code == UNCLEAR or item.code in {"500", "502", "504", "408", "ConnectionError"}:
                    doubts[item.key] = str(item.code)
                outcomes[item.key] = _with_doubt(item, doubts)
            if not again:
                break
            if any(item.code in _THROTTLED_CODES for item in found):
                self._rate.throttled()
            left = again
            if attempt + 1 < ATTEMPTS:
                self._sleep(min(20.0, 0.1 * 2**attempt) * (0.5 + random.random()))
        return outcomes

    def _send(self, keys: list[str], may_send: MaySend) -> list[DeleteOutcome]:
        """Make one attempt at some keys."""
        try:
            generations = self._generations(keys) if self._versioned else {}
            known = {key: found for key, found in generations.items() if isinstance(found, DeleteOutcome)}
            asked = [key for key in keys if key not in known]
            if self._versioned and asked and not may_send():  # the look took its time
                return [*known.values(), *(DeleteOutcome(key, "failed", NOT_SENT) for key in asked)]
            parts = [
                Part("DELETE", self._place.root + key, _condition(generations.get(key))) for key in asked
            ]
            answers = self._ask(parts)
            sent = [
                self._outcome(key, answer, generations.get(key))
                for key, answer in zip(asked, answers, strict=True)
            ]
            return [*known.values(), *sent]
        except DredgeError as error:
            code = "ConnectionError" if error.kind == "unavailable" else type(error).__name__
            return [DeleteOutcome(key, "failed", code, str(error)) for key in keys]

    def _ask(self, parts: list[Part]) -> list[PartAnswer | None]:
        if not parts:
            return []
        return send_batch(self._options.gcs, self._place.bucket, parts, f"deleting in {self.uri}")

    def _generations(self, keys: list[str]) -> dict[str, str | DeleteOutcome]:
        """The current generation of each object, or what else there is to say of its key."""
        parts = [Part("GET", self._place.root + key, (("fields", FIELDS),)) for key in keys]
        found: dict[str, str | DeleteOutcome] = {}
        for key, answer in zip(keys, self._ask(parts), strict=True):
            if answer is not None and answer.status == 200:
                found[key] = read_resource(answer.body, f"looking at {key!r}").generation
            else:
                found[key] = self._outcome(key, answer, None)
        return found

    def _outcome(
        self, key: str, answer: PartAnswer | None, generation: str | DeleteOutcome | None
    ) -> DeleteOutcome:
        if answer is None:
            return DeleteOutcome(key, "failed", UNCLEAR, "the server did not answer about this key")
        if answer.status in {200, 204}:
            version = marker_id(generation) if isinstance(generation, str) else None
            return DeleteOutcome(key, "deleted", version_id=version)
        if answer.status == 404 and is_about_bucket(answer.body):
            return DeleteOutcome(key, "failed", "NoSuchBucket", "the bucket does not exist")
        if answer.status == 404:
            return DeleteOutcome(key, "missing")
        if answer.status == 412:
            return DeleteOutcome(key, "failed", _CHANGED, "it was written again meanwhile")
        code, message = reason(answer.status, answer.body)
        return DeleteOutcome(key, "failed", str(answer.status) if answer.status in PASSING else code, message)


_PASSING_CODES = {str(status) for status in PASSING} | {"ConnectionError", UNCLEAR}
_THROTTLED_CODES = {str(status) for status in THROTTLED}


def _condition(generation: object) -> tuple[tuple[str, str], ...]:
    return (("ifGenerationMatch", generation),) if isinstance(generation, str) else ()


def _may_pass(outcome: DeleteOutcome) -> bool:
    return outcome.outcome == "failed" and outcome.code in _PASSING_CODES


def _with_doubt(outcome: DeleteOutcome, doubts: dict[str, str]) -> DeleteOutcome:
    """Note at a key that is confirmed by now what the server answered before. One that is not there any more after an
    answer in doubt was deleted by that request, as far as anybody can tell."""
    if outcome.key not in doubts or outcome.outcome not in {"deleted", "missing"}:
        return outcome
    words = f"confirmed when asked again; the first answer was {doubts[outcome.key]}"
    return replace(outcome, outcome="deleted", message=words)
