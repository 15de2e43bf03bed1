"""Values as JSON and back: what drivers hand to tasks, what tasks give back, and what files of runs and states say.

A payload is a frozen dataclass of text, numbers, bytes, times, tuples, mappings, and other payloads. Its fields are
its format: nobody writes a `to_json` by hand. A field that is missing, or of another type, is an error that names it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from dredge.errors import DredgeError, FormatError, RefusedError

type Json = dict[str, Any]


class NewerFormatError(FormatError):
    """A newer version of Dredge wrote the file."""

    def as_refusal(self, uri: str) -> RefusedError:
        """The error of a run that must not go on beside what a newer version left at a URI."""
        return RefusedError(f"{uri}: {self}. A newer version worked here. Nothing was deleted.")


class HasDigest(Protocol):
    """A value that is stored with its digest."""

    @property
    def digest(self) -> str:
        """Hex digest of its contents."""


def to_json(value: object) -> Json:
    """Turn a payload into the JSON object of its fields; keys of mappings become text, times ISO 8601, bytes base64."""
    found: Json = msgspec.to_builtins(value, str_keys=True, order="deterministic")
    return found


def from_json[T](kind: type[T], value: object) -> T:
    """Make a payload from the object that `to_json` made, in this process or another.

    Args:
        kind: the payload's dataclass.
        value: JSON; fields that the dataclass does not have are ignored.

    Raises:
        FormatError: a field is missing or of another type.
        DredgeError: the check of the dataclass itself (`__post_init__`) refused it.
    """
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, DredgeError):
            raise error.__cause__ from None
        raise FormatError(f"this is no {kind.__name__}: {error}") from None


def to_sealed(value: HasDigest) -> Json:
    """Turn a payload into JSON with its digest."""
    return to_json(value) | {"digest": value.digest}


def from_sealed[T: HasDigest](kind: type[T], value: object) -> T:
    """Make a payload from the object that `to_sealed` made.

    Raises:
        FormatError: a field is missing or of another type, or the digest does not fit: the file was damaged or edited.
    """
    found = from_json(kind, value)
    if not isinstance(value, dict) or found.digest != value.get("digest"):
        raise FormatError(
            f"this {kind.__name__} does not fit its own digest: it was changed after it was written"
        )
    return found


def from_file[T](kind: type[T], value: object) -> T:
    """Make a payload from a file that `to_json` made: fields with a default have to be there, too, at any depth.

    A file in which one is missing was damaged, and the default may keep less than the file said.

    Raises:
        FormatError: a field is missing or of another type.
        DredgeError: the check of the dataclass itself (`__post_init__`) refused it.
    """
    found = from_json(kind, value)
    lacking = _lacking(found, value)
    if lacking:
        raise FormatError(f"this is no {kind.__name__}: it lacks {lacking}")
    return found


def _lacking(found: object, value: object) -> str:
    """Name the first field of what was read that JSON does not have; "" when it has all."""
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
    """Make a payload from a file that names its format in the member `format`.

    Args:
        kind: the payload's dataclass; it has a field `format`.
        value: JSON, as for `from_file`.
        version: number of the format that this version reads and writes.

    Raises:
        NewerFormatError: a newer version wrote it.
        FormatError: it is of an older format, or damaged.
    """
    found = value.get("format") if isinstance(value, dict) else None
    if isinstance(found, int) and found > version:
        raise NewerFormatError(
            f"it has format {found}, and this version of Dredge reads {version}: use the newer version"
        )
    if found != version:
        raise FormatError(f"it has format {found!r}, and this version of Dredge reads {version}")
    return from_file(kind, value)
