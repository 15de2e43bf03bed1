"""Sizes and lengths of time in words."""

from __future__ import annotations

from datetime import timedelta

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS = (("days", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_DAYS_FROM_SECONDS = 48 * 3600


def size_text(size_bytes: int | None) -> str:
    """Word a size in bytes for people, such as "1.4 MiB"; "" when nobody counted."""
    if size_bytes is None:
        return ""
    value = float(size_bytes)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def duration_text(span: timedelta) -> str:
    """Word a length of time for people, such as "12 s", "13 h 12 min" or "2 days": its two largest units."""
    seconds = abs(span.total_seconds())
    sign = "-" if span < timedelta(0) else ""
    if seconds < 59.95:
        return f"{sign}{seconds:.3g} s"
    left = round(seconds)
    words: list[tuple[int, str]] = []
    for unit, size in _SPANS if left >= _DAYS_FROM_SECONDS else _SPANS[1:]:
        count, left = divmod(left, size)
        if count or words:
            words.append((count, unit))
    return sign + " ".join(f"{count} {unit}" for count, unit in words[:2] if count)


def number_of(count: float, noun: str, several: str = "") -> str:
    """Word a number of things, such as "1 day" or "2,000 days".

    Args:
        count: how many.
        noun: of one.
        several: of another number; "" adds an s.
    """
    return f"{count:,g} {noun}" if count == 1 else f"{count:,.12g} {several or f'{noun}s'}"
