"""Values as JSON and back: what drivers hand to tasks, and what tasks give back.

A payload is a frozen dataclass of text, numbers, times, tuples, mappings, and other payloads. Its fields are its
format: nobody writes a `to_json` by hand. A field that is missing, or of another type, is an error that names it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dredge.errors import FormatError

type Json = dict[str, Any]


def to_json(value: object) -> Json:
    """Turn a payload into the JSON object of its fields; keys of mappings become text, times ISO 8601."""
    found: Json = msgspec.to_builtins(value, str_keys=True)
    return found


def from_json[T](kind: type[T], value: object) -> T:
    """Make a payload from the object that `to_json` made, in this process or another.

    Args:
        kind: the payload's dataclass.
        value: JSON.

    Raises:
        FormatError: a field is missing or of another type.
    """
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise FormatError(f"this is no {kind.__name__}: {error}") from None
