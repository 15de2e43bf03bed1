"""What a user may ask of a collection, and the margins that safety rests on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dredge.errors import ConfigError
from dredge.runs.limits import Limits

MIN_AGE_HOURS = 24.0
"""A chunk is written before the commit that names it: the age must exceed the longest writing session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """All margins that safety rests on.

    Attributes:
        clock_skew_seconds_max: largest difference between this machine's clock and the store's.
        mark_age_hours_max: a mark older than this cannot be swept.
        lease_seconds: how long a lease lives without being renewed.
        gate_every_seconds: while deleting, how long a worker trusts its last look at lease and refs.
        watch_silence_seconds_max: while deleting, how old the driver's last look may be before workers stop.
        canary_chunks: chunks a ref that are looked up by another way before and after deleting.
    """

    clock_skew_seconds_max: float = 300
    mark_age_hours_max: float = 12
    lease_seconds: float = 3600
    gate_every_seconds: float = 3
    watch_silence_seconds_max: float = 60
    canary_chunks: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Sizes that only speed and memory depend on.

    Attributes:
        snapshots_a_task: snapshot files that one task reads.
        refs_a_task: chunk references that one task decodes.
        ids_a_shard: live ids in one shard (8 bytes each in every worker that lists its range).
        keys_a_task: expected keys of one listing task; keys are cut at one or two characters.
        candidate_rows: rows of a candidates part, which is also what one sweep task takes at a time.
        delete_keys: keys handed to the deleter at once; one ledger part is written for each such group.
        threads: requests in flight in one task.
    """

    snapshots_a_task: int = 5_000
    refs_a_task: int = 4_000_000
    ids_a_shard: int = 8 << 20
    keys_a_task: int = 100_000
    candidate_rows: int = 100_000
    delete_keys: int = 8_000
    threads: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedExpiration:
    """An expiration that a dry run takes as applied.

    Attributes:
        threshold: ISO 8601 with its zone; snapshots strictly older are expired.
        rule: "document", "spec_v1" or "spec_v2"; None takes the library's rule of the spec.
        delete_expired_branches: delete branches whose tip is expired; never main.
        delete_expired_tags: delete tags whose tip is expired.
    """

    threshold: str
    rule: str | None = None
    delete_expired_branches: bool = False
    delete_expired_tags: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectConfig:
    """What a user asks for.

    Attributes:
        uri: the repository.
        dry_run: plan and report, delete nothing.
        min_age_hours: objects younger than this are never deleted; at least 24, and longer than any writing
            session.
        unsafe_min_age_seconds: replaces min_age_hours and may be shorter; for tests and demos on
            repositories that nobody else writes to.
        grace_hours: spec 1 only: a snapshot must have been unreachable in an earlier run at least this long
            ago, because refs can be put on released snapshots. 0 asks for one mark only.
        overwritten_min_age_hours: also delete earlier versions of the repo info that are older than this and
            that neither its chain nor its own log names; None leaves them.
        keep_chunks: delete no chunk, whatever nothing reaches. For repositories that lack live chunks, which
            hold every other run.
        keep_transactions: delete no transaction log; likewise.
        max_delete_objects: more candidates than this stop the run; None is no limit.
        max_delete_bytes: more bytes than this stop the run.
        max_delete_percent: a larger share of the listed objects than this stops the run.
        after: an expiration that was planned and not applied: a dry run then reports what a collection would
            delete after it.
        run_root: URI of the folder for run folders; None is `_dredge/runs` in the repository.
        safety: margins.
        tuning: sizes.
    """

    uri: str
    dry_run: bool = True
    min_age_hours: float = 168.0
    unsafe_min_age_seconds: float | None = None
    grace_hours: float = 24.0
    overwritten_min_age_hours: float | None = None
    keep_chunks: bool = False
    keep_transactions: bool = False
    max_delete_objects: int | None = None
    max_delete_bytes: int | None = None
    max_delete_percent: float | None = None
    after: PlannedExpiration | None = None
    run_root: str | None = None
    safety: Safety = field(default_factory=Safety)
    tuning: Tuning = field(default_factory=Tuning)

    def __post_init__(self) -> None:
        if not self.uri:
            raise ConfigError("uri is empty; name the Icechunk repository to collect")
        if self.unsafe_min_age_seconds is None and self.min_age_hours < MIN_AGE_HOURS:
            raise ConfigError(
                f"min_age_hours is {self.min_age_hours:g}; below {MIN_AGE_HOURS:g} an open writer's chunks"
                " could be deleted. For tests, where nobody writes, there is unsafe_min_age_seconds."
            )
        if self.after is not None and not self.dry_run:
            raise ConfigError(
                "after is for dry runs: a run that deletes works on the repository as it is. Apply the expiration first"
            )
        for name in (
            "unsafe_min_age_seconds",
            "grace_hours",
            "overwritten_min_age_hours",
            "max_delete_objects",
            "max_delete_bytes",
            "max_delete_percent",
        ):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigError(f"{name} must not be negative")

    @property
    def kept_kinds(self) -> list[str]:
        """Kinds of objects of which none may be deleted."""
        kinds = {"chunks": self.keep_chunks, "transactions": self.keep_transactions}
        return [kind for kind, kept in kinds.items() if kept]

    @property
    def min_age_seconds(self) -> float:
        """The minimum age in force."""
        return (
            self.min_age_hours * 3600 if self.unsafe_min_age_seconds is None else self.unsafe_min_age_seconds
        )

    @property
    def limits(self) -> Limits:
        """The limits on damage."""
        return Limits(self.max_delete_objects, self.max_delete_bytes, self.max_delete_percent)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object, without secrets."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CollectConfig:
        """From a JSON object, as `to_json` or a DAG's params give it; ConfigError for unknown names."""
        plain = dict(value)
        plain["safety"] = _from(Safety, plain.get("safety") or {}, "safety.")
        plain["tuning"] = _from(Tuning, plain.get("tuning") or {}, "tuning.")
        if plain.get("after") is not None:
            plain["after"] = _from(PlannedExpiration, plain["after"], "after.")
        return _from(cls, plain, "")


def _from[T](kind: type[T], value: Mapping[str, Any], where: str) -> T:
    known = {item.name for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(value) - known)
    if unknown:
        raise ConfigError(f"unknown setting {where}{unknown[0]}; known are {', '.join(sorted(known))}")
    try:
        return kind(**value)
    except TypeError as error:
        raise ConfigError(f"settings do not fit: {error}") from None
