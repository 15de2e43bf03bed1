"""Tries of a step, and conditional writes: an object is replaced only in the version read before.

Each try claims a number, and only the newest try counts.

    <step>/_try.json     {"try": n}, changed only by conditional puts; each claim adds one
    <step>/t003/…        files of the third try

After losing contact with a worker, a scheduler starts the step again while the first driver, or one of its tasks, may
still run. Such an orphan is fenced off: it has its own files, it cannot replace files of a later try, and a reader of
the step compares the try of the result with the newest claim. A conditional put gives a number to a single try. A
number does not prove a running process.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from dredge.errors import ConflictError, FormatError, NotFoundError, OvertakenError, UnavailableError
from dredge.runs.payload import to_json
from dredge.storage import ObjectReader, ObjectWriter

_CHANGES_MAX = 5


def read_tagged(reader: ObjectReader, key: str) -> tuple[str, bytes] | None:
    """Read an object with its ETag; None if it does not exist."""
    # One answer gives both, so the tag is that of these bytes.
    try:
        with reader.open_read(key) as stream:
            return stream.info.etag or "", b"".join(stream)
    except NotFoundError:
        return None


def replace_tagged(writer: ObjectWriter, key: str, data: bytes, etag: str | None) -> bool:
    """Replace an object if it still has the ETag; returns whether it did. See `replaced_tag`."""
    return replaced_tag(writer, key, data, etag) is not None


def replaced_tag(writer: ObjectWriter, key: str, data: bytes, etag: str | None) -> str | None:
    """Replace an object if it still has the ETag. `etag`: from `read_tagged`; None to create the object. Returns the
    new ETag; None if another process changed the object. If the response was lost, the result can be None after a
    write: read the object again."""
    try:
        if etag is None:
            return writer.put_if_absent(key, data) or ""
        return writer.put_if_match(key, data, etag) or ""
    except ConflictError:
        return None


def change_file[T](writer: ObjectWriter, key: str, change: Callable[[Any], T]) -> T | None:
    """Replace a JSON file by the payload that `change` makes of its value, and return the payload; None without the
    file. Raises ConflictError if others change it all the time."""
    for _ in range(_CHANGES_MAX):
        tagged = read_tagged(writer, key)
        if tagged is None:
            return None
        found = change(json.loads(tagged[1]))
        if replace_tagged(writer, key, json.dumps(to_json(found), sort_keys=True).encode(), tagged[0]):
            return found
    raise ConflictError(f"{writer.uri}/{key} was changed at the same moment by another process. Try again.")


def replace_again(
    writer: ObjectWriter, key: str, data: bytes, etag: str | None, is_own: Callable[[bytes], bool]
) -> bool:
    """Replace an object if it still has the ETag, or if an earlier try of the same run wrote it. `etag`: from
    `read_tagged`; None to create the object. `is_own`: whether bytes are from an earlier try. Returns whether the
    object has the data now, also when a response was lost."""
    if replace_tagged(writer, key, data, etag):
        return True
    tagged = read_tagged(writer, key)
    if tagged is None or not is_own(tagged[1]):
        return False
    return tagged[1] == data or replace_tagged(writer, key, data, tagged[0])


TRY = "_try.json"
_ROUNDS_MAX = 20


@dataclass(frozen=True, slots=True)
class StepTry:
    """A try of a step. `number`: from 1; 0 is a step without a try."""

    writer: ObjectWriter
    step: str
    number: int

    @classmethod
    def claim_first(cls, writer: ObjectWriter, step: str) -> Self | None:
        """Start the first try; None after an earlier try."""
        is_first = replace_tagged(writer, f"{step}/{TRY}", json.dumps({"try": 1}).encode(), None)
        return cls(writer, step, 1) if is_first else None

    @classmethod
    def claim(cls, writer: ObjectWriter, step: str) -> Self:
        """Start a try, and fence off earlier tries. Raises UnavailableError: other processes claim tries all the time;
        FormatError: the object with the number is damaged."""
        if (first := cls.claim_first(writer, step)) is not None:
            return first
        for _ in range(_ROUNDS_MAX):
            number, etag = _newest(writer, step)
            data = json.dumps({"try": number + 1}).encode()
            if replace_tagged(writer, f"{step}/{TRY}", data, etag):
                return cls(writer, step, number + 1)
        raise UnavailableError(
            f"{writer.uri}/{step}/{TRY}: other processes changed it {_ROUNDS_MAX} times between read and write."
            " Nothing was changed. Check whether the step is also in progress elsewhere; run it again when it is not."
        )

    @classmethod
    def newest(cls, writer: ObjectWriter, step: str) -> Self:
        """Return the newest try."""
        return cls(writer, step, newest_number(writer, step))

    def is_newest(self) -> bool:
        """Whether there is no later try."""
        return newest_number(self.writer, self.step) == self.number

    def check(self) -> None:
        """Check that this try is the newest. Raises OvertakenError if there is a later try."""
        newest = newest_number(self.writer, self.step)
        if newest != self.number:
            raise OvertakenError(
                f"{self.writer.uri}: try {self.number} of step {self.step} was overtaken by try {newest}. This try"
                " stopped; only the later try counts. No action is needed: see the later try."
            )

    @property
    def named(self) -> tuple[str, int]:
        """Step and number, for the tasks of this try."""
        return self.step, self.number

    def key(self, name: str) -> str:
        """Return the key of a file of this try: `<step>/t<number>/…`."""
        return f"{self.step}/t{self.number:03d}/{name.removeprefix(f'{self.step}/')}"

    def publish(self, key: str, value: Mapping[str, Any]) -> None:
        """Write a JSON object with the number of this try as `try_number`; see `replace`."""
        self.replace(key, json.dumps({**value, "try_number": self.number}, sort_keys=True).encode())

    def replace(self, key: str, data: bytes) -> None:
        """Write an object under a name shared by all tries. Raises OvertakenError if the object exists and there is a
        later try, and UnavailableError if other processes write all the time."""
        if replace_tagged(self.writer, key, data, None):
            return  # there was no object; a later try replaces this one
        for _ in range(_ROUNDS_MAX):
            # In this order: a write after the check of the number changes the ETag.
            found = read_tagged(self.writer, key)
            self.check()
            if replace_tagged(self.writer, key, data, None if found is None else found[0]):
                return
        raise UnavailableError(
            f"{self.writer.uri}/{key}: other processes changed it {_ROUNDS_MAX} times between read and write. Check"
            " whether the step is also in progress elsewhere; run it again when it is not."
        )


def newest_number(reader: ObjectReader, step: str) -> int:
    """Return the number of the newest try; 0 without a try. Raises FormatError if the object with the number is
    damaged."""
    key = f"{step}/{TRY}"
    try:
        return _number(reader, key, reader.get(key))
    except NotFoundError:
        return 0


def _newest(reader: ObjectReader, step: str) -> tuple[int, str | None]:
    key = f"{step}/{TRY}"
    found = read_tagged(reader, key)
    if found is None:
        return 0, None
    etag, data = found
    return _number(reader, key, data), etag


def _number(reader: ObjectReader, key: str, data: bytes) -> int:
    try:
        return int(json.loads(data)["try"])
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"{reader.uri}/{key} is damaged: the newest try is unknown ({error}). Nothing was deleted. Start a new run."
        ) from None
