"""Values written as lakeFS's own language writes them: JSON, times, durations.

What hooks receive and what runs leave behind is compared by tests and scripts of users, so it looks the same here.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from dredge.graveler.errors import InvalidValueError

NEVER = datetime(1, 1, 1, tzinfo=UTC)
"""The time of what has not happened: a skipped hook began then."""

# Go's JSON encoder escapes these so that the text can be embedded in HTML.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|h|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}


def to_json(value: object, *, sort_keys: bool = False, indent: str | None = None) -> str:
    """Encode a value, on one line without spaces or with an indent for each level."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(
        value,
        ensure_ascii=False,
        separators=separators,
        sort_keys=sort_keys,
        indent=indent,
        allow_nan=False,
    )
    return text.translate(_ESCAPES)


def rfc3339(when: datetime, *, fraction: bool = False) -> str:
    """Write a time in UTC; with `fraction` down to the microsecond, without zeros at the end."""
    utc = when.astimezone(UTC)
    text = f"{utc.year:04d}-{utc:%m-%dT%H:%M:%S}"
    parts = f"{utc.microsecond:06d}".rstrip("0") if fraction else ""
    return f"{text}.{parts}Z" if parts else f"{text}Z"


def parse_duration(text: str) -> float:
    """Read a duration such as `1m30s`, in seconds.

    Raises:
        InvalidValueError: it is not one.
    """
    if text == "0":
        return 0.0
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text[:1] in ("-", "+") else text
    parts = _PART.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        raise InvalidValueError(f'time: invalid duration "{text}"')
    return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)


def duration(seconds: float) -> str:
    """Write a duration for people: `1.5s`, `12.3ms`."""
    if seconds >= 1:
        return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"
    return f"{seconds * 1000:.3f}".rstrip("0").rstrip(".") + "ms"
