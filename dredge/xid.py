"""Xids: the 20-character ids of slices, objects, runs and repository instances.

    12 bytes: 4 seconds (big endian) · 3 machine · 2 process · 3 counter, in base32hex, lowercase, no padding

An ascending xid counts Unix seconds. A descending one counts the seconds left until the year 4000, cut to 32
bits, so that newer ids sort first: slices below `data/`, run ids. Runs of hooks and pull requests count down to
the year 3000 (nearly) instead.

Source: lakeFS pkg/graveler/ref/manager.go, pkg/graveler/retention; github.com/rs/xid.
"""

import os
import secrets
import threading
from datetime import UTC, datetime

from dredge.errors import FormatError

LENGTH = 20
_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_DIGITS = {digit: value for value, digit in enumerate(_ALPHABET)}
_YEAR_4000 = 64_060_588_800  # Unix seconds of 4000-01-01
_COUNTDOWN_END = 32_500_915_200  # Unix seconds, as in lakeFS
_WRAP = 1 << 32

_machine = secrets.token_bytes(3)
_counter = secrets.randbelow(1 << 24)
_lock = threading.Lock()


def new_xid(now: datetime) -> str:
    """Make an id that sorts after those of earlier seconds; `now` is aware."""
    return _new(int(now.timestamp()) % _WRAP)


def new_descending_xid(now: datetime) -> str:
    """Make an id that sorts before those of earlier seconds; `now` is aware."""
    return _new((_YEAR_4000 - int(now.timestamp())) % _WRAP)


def ascending_time(xid: str) -> datetime:
    """Return the time of an ascending id, to the second; raises FormatError if it is not an xid."""
    return datetime.fromtimestamp(_seconds(xid), UTC)


def descending_time(xid: str) -> datetime:
    """Return the time of a descending id, to the second (for the years 1970 to 2106); raises FormatError if it is not
    an xid."""
    return datetime.fromtimestamp((_YEAR_4000 - _seconds(xid)) % _WRAP, UTC)


def is_xid(text: str) -> bool:
    """Whether a string is an xid."""
    return len(text) == LENGTH and all(digit in _DIGITS for digit in text) and text[-1] in "0g"


def _new(seconds: int) -> str:
    global _counter
    with _lock:
        _counter = (_counter + 1) % (1 << 24)
        count = _counter
    # The process id is read each time: a forked child must not repeat its parent's ids.
    process = (os.getpid() & 0xFFFF).to_bytes(2, "big")
    return _encode(seconds.to_bytes(4, "big") + _machine + process + count.to_bytes(3, "big"))


def _encode(raw: bytes) -> str:
    number = int.from_bytes(raw, "big") << 4  # 96 bits, padded to 20 digits of 5 bits
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(95, -1, -5))


def _seconds(xid: str) -> int:
    if not is_xid(xid):
        raise FormatError(
            f"{xid!r} is not an xid: 20 characters of {_ALPHABET[0]}-{_ALPHABET[-1]} are expected"
        )
    number = 0
    for digit in xid:
        number = number << 5 | _DIGITS[digit]
    return number >> 68
