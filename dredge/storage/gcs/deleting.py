"""Deletes objects from Google Cloud Storage: 100 keys per request, several requests at once, one outcome per key.

Listed objects, and all objects in buckets with versions, are looked up first, also in a batch; the deletion has their
generation as its condition. So an object written since the listing stays, also after a lost answer and a second
request, and the ledger can name the version that a deletion left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar, Self

from dredge.errors import DredgeError
from dredge.storage import deleting
from dredge.storage.gcs.listing import FIELDS, Resource, read_resource, tag
from dredge.storage.gcs.undo import GcsVersions, marker_id
from dredge.storage.gcs.wire import (
    BATCH_PARTS,
    PASSING,
    THROTTLED,
    Part,
    PartAnswer,
    Query,
    is_about_bucket,
    is_name,
    reason,
    send_batch,
)
from dredge.storage.location import Location
from dredge.storage.model import (
    CHANGED,
    NOT_SENT,
    STORE_HOLD,
    DeleteOutcome,
    MaySend,
    ObjectInfo,
    always,
)
from dredge.storage.options import StorageOptions

_CHANGED = "ChangedMeanwhile"
_HELD = frozenset({"objectUnderActiveHold", "retentionPolicyNotMet"})
"""Why the service refuses: a temporary or event-based hold; a retention policy of the bucket, or of the object."""


class _GcsBatches(deleting.Batches):
    BATCH_KEYS = BATCH_PARTS
    CODES: ClassVar = deleting.Codes(
        throttled=frozenset(str(status) for status in THROTTLED),
        # A part without an answer is asked again with the others, as parts cost nothing.
        transient=frozenset(
            {deleting.UNCLEAR, deleting.CONNECTION_LOST, *(str(status) for status in PASSING - THROTTLED)}
        ),
        alone=frozenset(),
    )

    def _can_name(self, key: str) -> bool:
        return is_name(self._root, key)

    def _delete(self, items: Sequence[deleting.Item], queries: Sequence[Query]) -> list[DeleteOutcome]:
        parts = [
            Part("DELETE", self._root + key, query) for (key, _), query in zip(items, queries, strict=True)
        ]
        try:
            answers = self._ask(parts)
        except DredgeError as error:
            code = deleting.CONNECTION_LOST if error.kind == "unavailable" else type(error).__name__
            return deleting.all_failed(items, code, str(error))
        return [self._outcome(key, answer) for (key, _), answer in zip(items, answers, strict=True)]

    def _ask(self, parts: list[Part]) -> list[PartAnswer | None]:
        return send_batch(self._options.gcs, self._bucket, parts, f"deleting in {self.uri}")

    def _outcome(self, key: str, answer: PartAnswer | None) -> DeleteOutcome:
        if answer is None:
            return DeleteOutcome(key, "failed", deleting.UNCLEAR, "the server did not answer about this key")
        if answer.status in {200, 204}:
            return DeleteOutcome(key, "deleted")
        if answer.status == 404 and is_about_bucket(answer.body):
            return DeleteOutcome(key, "failed", "NoSuchBucket", "the bucket does not exist")
        if answer.status == 404:
            return DeleteOutcome(key, "missing")
        if answer.status == 412:
            return DeleteOutcome(key, "failed", _CHANGED, "it was written again meanwhile")
        code, message = reason(answer.status, answer.body)
        return DeleteOutcome(key, "failed", str(answer.status) if answer.status in PASSING else code, message)


class GcsDeleter(_GcsBatches, deleting.BatchDeleter):
    """Deletes objects below a prefix."""

    def __init__(
        self, location: Location, options: StorageOptions, rate: deleting.AdaptiveRate | None = None
    ) -> None:
        super().__init__(location, options, rate)
        self._listed: Mapping[str, ObjectInfo] = {}

    def delete_listed(self, objects: Sequence[ObjectInfo], may_send: MaySend = always) -> list[DeleteOutcome]:
        if objects:
            self._prepare()  # once for all calls
        listed = {found.key: found for found in objects}
        told = self._of(listed).delete([found.key for found in objects], may_send)
        return [_kept(outcome) for outcome in told]

    def _of(self, listed: Mapping[str, ObjectInfo]) -> Self:
        made = type(self)(self._location, self._options, self._rate)
        made._versioned, made._sleep, made._listed = self._versioned, self._sleep, listed
        return made

    def _prepare(self) -> None:
        if self._versioned is None:
            found = GcsVersions(self._location, self._options).versioning()
            self._versioned = found in {"enabled", "unknown"}

    def _send(self, items: list[deleting.Item], may_send: MaySend) -> list[DeleteOutcome]:
        looks = bool(self._versioned or self._listed)
        generations = self._look([key for key, _ in items]) if looks else {}
        told = {key: found for key, found in generations.items() if isinstance(found, DeleteOutcome)}
        asked = [item for item in items if item[0] not in told]
        if looks and asked and not may_send():  # the look took its time
            told |= {key: DeleteOutcome(key, "failed", NOT_SENT) for key, _ in asked}
        elif asked:
            for outcome in self._delete(asked, [_condition(generations.get(key)) for key, _ in asked]):
                told[outcome.key] = self._with_marker(outcome, generations.get(outcome.key))
        return [told[key] for key, _ in items]

    def _with_marker(self, outcome: DeleteOutcome, generation: str | DeleteOutcome | None) -> DeleteOutcome:
        leaves = self._versioned and isinstance(generation, str) and outcome.outcome == "deleted"
        return replace(outcome, version_id=marker_id(str(generation))) if leaves else outcome

    def _look(self, keys: list[str]) -> dict[str, str | DeleteOutcome]:
        """The current generation of each object, or an outcome. A failed lookup leaves no deletion in doubt."""
        try:
            found = self._generations(keys)
        except DredgeError as error:
            code = deleting.NOT_CONNECTED if error.kind == "unavailable" else type(error).__name__
            return {key: DeleteOutcome(key, "failed", code, str(error)) for key in keys}
        return {
            key: replace(told, code=deleting.NOT_CONNECTED)
            if isinstance(told, DeleteOutcome) and self.CODES.is_doubtful(told.code)
            else told
            for key, told in found.items()
        }

    def _generations(self, keys: list[str]) -> dict[str, str | DeleteOutcome]:
        """The current generation of each object, or an outcome."""
        parts = [Part("GET", self._root + key, (("fields", FIELDS),)) for key in keys]
        found: dict[str, str | DeleteOutcome] = {}
        for key, answer in zip(keys, self._ask(parts), strict=True):
            if answer is not None and answer.status == 200:
                found[key] = self._as_listed(key, read_resource(answer.body, f"looking at {key!r}"))
            else:
                found[key] = self._outcome(key, answer)
        return found

    def _as_listed(self, key: str, found: Resource) -> str | DeleteOutcome:
        """The generation of an object, if it is the listed object."""
        listed = self._listed.get(key)
        if listed is None or listed.etag is None or _is_same(listed, found):
            return found.generation
        return DeleteOutcome(key, "failed", _CHANGED, "it was written again since it was listed")


class GcsVersionDeleter(_GcsBatches, deleting.BatchVersionDeleter):
    """Deletes single generations."""

    def _send(self, items: list[deleting.Item], _may_send: MaySend) -> list[DeleteOutcome]:
        return self._delete(items, [(("generation", version),) for _, version in items])


def _condition(generation: object) -> Query:
    return (("ifGenerationMatch", generation),) if isinstance(generation, str) else ()


def _is_same(listed: ObjectInfo, found: Resource) -> bool:
    if (str(listed.size), listed.etag) != (found.size, tag(found)):
        return False
    return datetime.fromisoformat(found.updated) == listed.last_modified


def _kept(outcome: DeleteOutcome) -> DeleteOutcome:
    # A retry would not help: the object stays for the next run.
    if outcome.outcome != "failed" or outcome.code not in {_CHANGED, *_HELD}:
        return outcome
    return replace(outcome, outcome="kept", code=CHANGED if outcome.code == _CHANGED else STORE_HOLD)
