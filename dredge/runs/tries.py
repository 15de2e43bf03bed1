"""Tries of a step: each claims a number, and only the newest one counts.

    <step>/_try.json     {"try": n}, changed only by conditional puts; n grows by one with every claim
    <step>/t003/…        what the third try wrote; no other try writes there

A scheduler that loses sight of a worker starts the step again while the first driver, or one of its tasks, may
live on. Nobody can stop such an orphan. Its try is therefore fenced off: it has files of its own, it cannot
replace what a later try published, and who reads a step compares the number of the result with the number that
was claimed last. So whatever an orphan still writes, and whenever it does, is no result of the step.

Two claims never get the same number: the store lets one conditional put win. A number says nothing about whether
its holder still lives, only that somebody came after everybody with a smaller one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dredge.errors import FormatError, NotFoundError, OvertakenError, UnavailableError
from dredge.runs.conditional import read_tagged, replace_tagged
from dredge.storage import ObjectReader, ObjectWriter

TRY = "_try.json"
_ROUNDS_MAX = 20


@dataclass(frozen=True, slots=True)
class StepTry:
    """One try of a step.

    Attributes:
        writer: on the run folder.
        step: the step's folder in it, such as "committed".
        number: from 1; larger than that of every earlier try. 0 stands for a step that nobody has tried.
    """

    writer: ObjectWriter
    step: str
    number: int

    @classmethod
    def claim_first(cls, writer: ObjectWriter, step: str) -> Self | None:
        """Begin the first try; None when there was one."""
        is_first = replace_tagged(writer, f"{step}/{TRY}", json.dumps({"try": 1}).encode(), None)
        return cls(writer, step, 1) if is_first else None

    @classmethod
    def claim(cls, writer: ObjectWriter, step: str) -> Self:
        """Begin a try, and fence off all earlier ones.

        Raises:
            UnavailableError: others claim all the time.
            FormatError: the object with the number is damaged.
        """
        if (first := cls.claim_first(writer, step)) is not None:
            return first
        for _ in range(_ROUNDS_MAX):
            number, etag = _newest(writer, step)
            data = json.dumps({"try": number + 1}).encode()
            if replace_tagged(writer, f"{step}/{TRY}", data, etag):
                return cls(writer, step, number + 1)
        raise UnavailableError(
            f"{writer.uri}/{step}/{TRY}: others claimed a try each of {_ROUNDS_MAX} times. Nothing was done. Run"
            " the step again when it is not being run elsewhere."
        )

    @classmethod
    def newest(cls, writer: ObjectWriter, step: str) -> Self:
        """The try that was claimed last."""
        return cls(writer, step, newest_number(writer, step))

    def is_newest(self) -> bool:
        """Whether nobody has claimed a later try."""
        return newest_number(self.writer, self.step) == self.number

    def check(self) -> None:
        """Look whether this try still counts.

        Raises:
            OvertakenError: a later one was claimed.
        """
        newest = newest_number(self.writer, self.step)
        if newest != self.number:
            raise OvertakenError(
                f"{self.writer.uri}: try {self.number} of step {self.step} was overtaken by try {newest}. What it"
                " was about to do or write was left undone; the later try alone counts. Nothing is to be done"
                " here: look at the later one."
            )

    @property
    def named(self) -> tuple[str, int]:
        """Step and number, for tasks of this try."""
        return self.step, self.number

    def key(self, name: str) -> str:
        """Where this try keeps a file: `<step>/t<number>/…`."""
        return f"{self.step}/t{self.number:03d}/{name.removeprefix(f'{self.step}/')}"

    def publish(self, key: str, value: Mapping[str, Any]) -> None:
        """Write a JSON object that every try writes under the same name, unless a later try has done so.

        A later try may have been claimed; what this one then writes where nothing is names its try, so that readers can
        tell, and gives way to whatever the later one publishes.

        Args:
            key: relative to the run folder.
            value: gets the number of this try as its `try_number`.

        Raises:
            OvertakenError: a later try was claimed, and something is there.
            UnavailableError: others write all the time.
        """
        data = json.dumps({**value, "try_number": self.number}, sort_keys=True).encode()
        if replace_tagged(self.writer, key, data, None):
            return
        for _ in range(_ROUNDS_MAX):
            self.check()
            etag, number = _published(self.writer, key)
            if number > self.number:
                continue  # claimed and published since the look
            if replace_tagged(self.writer, key, data, etag):
                return
        raise self._busy(key)

    def replace(self, key: str, data: bytes) -> None:
        """Write an object that every try writes under the same name, unless a later try was begun.

        Args:
            key: relative to the run folder.
            data: the object, which need not name its try.

        Raises:
            OvertakenError: a later try was claimed.
            UnavailableError: others write all the time.
        """
        if replace_tagged(self.writer, key, data, None):
            return  # where nothing is; a later try replaces it
        for _ in range(_ROUNDS_MAX):
            # In this order: whoever writes after the look at the number has changed the tag.
            found = read_tagged(self.writer, key)
            self.check()
            if replace_tagged(self.writer, key, data, None if found is None else found[0]):
                return
        raise self._busy(key)

    def _busy(self, key: str) -> UnavailableError:
        return UnavailableError(
            f"{self.writer.uri}/{key} was changed by others each of {_ROUNDS_MAX} times. Run the step again when"
            " it is not being run elsewhere."
        )


def newest_number(reader: ObjectReader, step: str) -> int:
    """The number of the try that was claimed last; 0 when there was none.

    Raises:
        FormatError: the object with the number is damaged.
    """
    key = f"{step}/{TRY}"
    try:
        return _number(reader, key, reader.get(key))
    except NotFoundError:
        return 0


def _newest(reader: ObjectReader, step: str) -> tuple[int, str | None]:
    """The number, and the tag of the object that says it, for who wants to claim the next one."""
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
            f"{reader.uri}/{key} does not say which try counts ({error}). Nothing was deleted. Start a new run."
        ) from None


def _published(reader: ObjectReader, key: str) -> tuple[str | None, int]:
    """The tag of a published object, None when there is none, and the number of the try that wrote it."""
    found = read_tagged(reader, key)
    if found is None:
        return None, 0
    etag, data = found
    try:
        return etag, int(json.loads(data).get("try_number", 0))
    except (ValueError, TypeError, AttributeError):
        return etag, 0  # damaged: anybody may replace it
