"""Values as JSON: for tasks, and for files of runs and states.

A payload is a frozen dataclass of text, numbers, bytes, times, tuples, mappings, and other payloads. Its fields are its
format. A missing or mistyped field is an error with the field's name.
"""

import dataclasses
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from dredge.errors import DredgeError, FormatError, RefusedError

type Json = dict[str, Any]

# msgspec reads the fields of a class at its first use, without a lock. A thread that converts to the class while
# another thread reads the fields loops for ever or crashes.
_LEARNING = threading.Lock()
_KNOWN: set[type] = set()


class NewerFormatError(FormatError):
    """A newer version of Dredge wrote the file."""

    def as_refusal(self, uri: str) -> RefusedError:
        """Return the refusal of a run because of this file."""
        return RefusedError(f"{uri}: {self}. A newer version worked here. Nothing was deleted.")


class HasDigest(Protocol):
    """A value with a digest."""

    @property
    def digest(self) -> str:
        """Hex digest of the contents."""


def to_json(value: object) -> Json:
    """Convert a payload to a JSON object; keys become text, times ISO 8601, bytes base64."""
    found: Json = msgspec.to_builtins(value, str_keys=True, order="deterministic")
    return found


def from_json[T](kind: type[T], value: object) -> T:
    """Convert the JSON of `to_json` to a payload; unknown fields are ignored. Raises FormatError: a field is missing or
    of another type; DredgeError: `__post_init__` of the dataclass refused it."""
    if kind not in _KNOWN:
        with _LEARNING:
            msgspec.json.Decoder(kind)
            _KNOWN.add(kind)
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, DredgeError):
            raise error.__cause__ from None
        raise FormatError(f"this is no {kind.__name__}: {error}") from None


def to_sealed(value: HasDigest) -> Json:
    """Convert a payload to JSON with its digest."""
    return to_json(value) | {"digest": value.digest}


def from_sealed[T: HasDigest](kind: type[T], value: object) -> T:
    """Convert the JSON of `to_sealed` to a payload. Raises FormatError if a field is missing or of another type, or the
    digest differs: the file was damaged or edited."""
    found = from_json(kind, value)
    if not isinstance(value, dict) or found.digest != value.get("digest"):
        raise FormatError(
            f"this {kind.__name__} does not fit its own digest: it was changed after it was written"
        )
    return found


def from_file[T](kind: type[T], value: object) -> T:
    """Convert the JSON of a file to a payload. Fields with defaults must be present too, at any depth: a file without
    one was damaged, and the default may keep less than the file did. Raises FormatError: a field is missing or of
    another type; DredgeError: `__post_init__` of the dataclass refused it."""
    found = from_json(kind, value)
    lacking = _lacking(found, value)
    if lacking:
        raise FormatError(f"this is no {kind.__name__}: it lacks {lacking}")
    return found


def _lacking(found: object, value: object) -> str:
    """Return the first field of a payload that its JSON lacks; "" if it has all."""
    pairs: Iterable[tuple[str, object, object]] = ()
    if isinstance(value, dict):
        if dataclasses.is_dataclass(found):
            names = [item.name for item in dataclasses.fields(found)]
            absent = [name for name in names if name not in value]
            if absent:
                return absent[0]
            pairs = ((f"{name}.", getattr(found, name), value[name]) for name in names)
        elif isinstance(found, Mapping):
            pairs = (("", *pair) for pair in zip(found.values(), value.values(), strict=False))
    elif isinstance(value, list | tuple) and isinstance(found, list | tuple):
        pairs = (("", *pair) for pair in zip(found, value, strict=True))
    return next((f"{name}{below}" for name, *pair in pairs if (below := _lacking(*pair))), "")


def from_versioned[T](kind: type[T], value: object, version: int) -> T:
    """Convert the JSON of a file with a field `format` to a payload. `version`: the format that this version of Dredge
    reads and writes. Raises NewerFormatError: a newer version wrote it; FormatError: an older format, or damaged."""
    found = value.get("format") if isinstance(value, dict) else None
    if isinstance(found, int) and found > version:
        raise NewerFormatError(
            f"it has format {found}, and this version of Dredge reads {version}: use the newer version"
        )
    if found != version:
        raise FormatError(f"it has format {found!r}, and this version of Dredge reads {version}")
    return from_file(kind, value)
