"""The module time. Times are nanoseconds since 1970, as numbers of Lua, which are exact to about 200 ns.

Layouts are Go's, made of the parts of one reference time: Mon Jan 2 15:04:05 MST 2006, zone -0700.

Source: lakeFS pkg/actions/lua/time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from dredge.graveler.actions.lua.library import Library, function

ISO_LAYOUT = "2006-01-02T15:04:05-07:00"
_NANOSECONDS = 1_000_000_000
_PARTS = {
    "January": "%B",
    "Jan": "%b",
    "Monday": "%A",
    "Mon": "%a",
    "MST": "%Z",
    "2006": "%Y",
    "01": "%m",
    "02": "%d",
    "03": "%I",
    "04": "%M",
    "05": "%S",
    "06": "%y",
    "15": "%H",
    "PM": "%p",
    "Z07:00": "%:z",
    "-07:00": "%:z",
    "-0700": "%z",
}
_PART = re.compile("|".join(map(re.escape, sorted(_PARTS, key=len, reverse=True))))
_UNSUPPORTED = re.compile(r"(?<!\d)[12345](?!\d)|_2|pm|[.,](?:0+|9+)(?!\d)|Z0700|Z07(?!:)|-07(?![:\d])")


def _directives(layout: str) -> str:
    """A layout as Python writes it.

    Raises:
        ValueError: it has a part that is not supported.
    """
    rest = _PART.sub("", layout)
    found = _UNSUPPORTED.search(rest)
    if found:
        raise ValueError(f"layout {layout!r}: {found[0]!r} is not supported by this embedded server")
    escaped = layout.replace("%", "%%")
    return _PART.sub(lambda match: _PARTS[match[0]], escaped)


def _format(nanoseconds: float, layout: str, zone: str | None) -> str:
    when = datetime.fromtimestamp(int(nanoseconds) // _NANOSECONDS, UTC).astimezone(_zone(zone))
    text = when.strftime(_directives(layout))
    return text.replace("+00:00", "Z") if "Z07:00" in layout else text


def _parse(layout: str, text: str) -> float:
    directives = _directives(layout).replace("%:z", "%z")
    try:
        when = datetime.strptime(text, directives)
    except ValueError:
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse') from None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return float((when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000)


def _zone(name: str | None) -> Any:
    if not name or name in ("UTC", "Local"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name}") from None


def _add(nanoseconds: float, parts: dict[str, Any]) -> float:
    seconds = sum(
        int(parts.get(name, 0)) * size for name, size in (("hour", 3600), ("minute", 60), ("second", 1))
    )
    return float(int(nanoseconds) + seconds * _NANOSECONDS)


def library(seconds_left: Callable[[], float]) -> Library:
    """The module for one script.

    Args:
        seconds_left: time until the script is ended.
    """

    def sleep(nanoseconds: float) -> None:
        time.sleep(min(max(nanoseconds, 0) / _NANOSECONDS, seconds_left() + 0.01))

    return {
        "now": function("", lambda: float(time.time_ns())),
        "since": function("n", lambda start: time.time_ns() - start),
        "sleep": function("n", sleep),
        "add": function("n t", _add),
        "format": function("n u u", _format),
        "format_iso": function("n u?", lambda when, zone: _format(when, ISO_LAYOUT, zone)),
        "parse": function("u u", _parse),
        "parse_iso": function("u", lambda text: _parse(ISO_LAYOUT, text)),
    }
