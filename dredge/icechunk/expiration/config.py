"""Settings of an expiration, and parsing of durations and times."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta

from msgspec import Struct

from dredge.errors import ConfigError
from dredge.settings import HOURS_MAX, Settings, setting

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")


# The names in `rules`, which DAG files and `--help` need not load.
RULES = ("document", "spec_v1", "spec_v2")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireConfig(Settings):
    """Settings of an expiration. Each field is a Param of the DAG, a key of an operator's `config`, and a row of the
    docs."""

    older_than: str = setting(
        "Older than",
        "A duration (`30d`, `12h`), a date, or a time with its zone. Older snapshots are removed from the"
        " history.",
        default="30d",
    )
    rule: str | None = setting(
        "Rule",
        "Empty: Icechunk's own rule. `document` and `spec_v1` apply to spec 1 only.",
        default=None,
        choices=RULES,
    )
    delete_expired_branches: bool = setting(
        "Delete expired branches", "Also delete branches whose tip is expired; never main.", default=False
    )
    delete_expired_tags: bool = setting(
        "Delete expired tags",
        "Also delete tags whose tip is expired. **Their names can never be used again.**",
        default=False,
    )
    keep_refs: str | None = setting(
        "Keep refs",
        "Names or globs, separated by commas, of branches and tags that are never deleted: `release-*`, `tag:v*`."
        " Empty: none.",
        default=None,
    )
    keep_refs_younger_hours: float = setting(
        "Keep refs younger than hours",
        "Branches and tags created or moved less than this ago are not deleted, because a job may have just"
        " created a branch on an old snapshot. For the same time after an upgrade to spec 2, no ref is deleted.",
        default=24.0,
        minimum=0,
        maximum=HOURS_MAX,
    )
    estimate: bool = setting(
        "Estimate",
        "Count the objects that a collection would delete after the expiration; reads every live manifest.",
        default=True,
    )


class Expiration(Struct, frozen=True, kw_only=True):
    """An expiration with a fixed threshold: planned, applied, or assumed as applied by the dry run of a collection."""

    threshold: str  # ISO 8601 with its zone; snapshots strictly older are expired
    rule: str | None = None  # "document", "spec_v1" or "spec_v2"; None is the library's rule for the spec
    delete_expired_branches: bool = False
    delete_expired_tags: bool = False
    keep_refs: str | None = None
    keep_refs_younger_hours: float = 0.0

    @classmethod
    def from_config(cls, config: ExpireConfig, now: datetime) -> Expiration:
        """Compute the threshold of a configured expiration; raises as `parse_older_than`."""
        found = asdict(config)
        del found["older_than"], found["estimate"]
        return cls(threshold=parse_older_than(config.older_than, now).isoformat(), **found)

    @property
    def instant(self) -> datetime:
        """The threshold as a time."""
        return datetime.fromisoformat(self.threshold)


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as `30d`, `12h` or `1w2d`; raises ConfigError."""
    words = text.strip()
    if not _DURATION.fullmatch(words):
        raise ConfigError(f"{text!r} is not a duration such as 30d, 12h or 1w2d")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(words)))
    except OverflowError:
        raise ConfigError(f"{text!r} is too long a duration") from None


def parse_older_than(text: str, now: datetime) -> datetime:
    """Parse a date, a time, or a duration counted back from now. Raises ConfigError: other text, or a time without a
    zone or in the future."""
    words = text.strip()
    if _DURATION.fullmatch(words):
        try:
            return now - parse_duration(words)
        except OverflowError:
            raise ConfigError(f"{text!r} is too long a duration: it begins before the first year") from None
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", words):
            found = datetime.combine(date.fromisoformat(words), time(), UTC)
        else:
            found = datetime.fromisoformat(words)
    except ValueError:
        raise ConfigError(
            f"{text!r} is neither a duration (30d, 12h, 1w2d) nor a date (2026-01-31, 2026-01-31T12:00:00Z)"
        ) from None
    if found.tzinfo is None:
        raise ConfigError(f"{text!r} has no time zone; write it with Z or an offset, such as {words}Z")
    if found > now:
        raise ConfigError(f"{text!r} is in the future")
    return found
