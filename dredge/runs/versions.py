"""State that a complete run leaves for the next one: where it lies, and how it moves on.

    state/versions/<run>-<digest>.json   never changed
    state/current.json                   names the newest version and its digest; written conditionally
    state/distrusted/<version>           a version that a run found damaged; it is not used again

The pointer is replaced only when it still names the version that the new one built on, so two runs can never
both move the state on from the same place. What cannot be read, or does not fit its digest, is no state: the
next run is then a clean one and makes a new state.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from dredge.errors import ConflictError, DredgeError, FormatError, NotFoundError
from dredge.runs.conditional import read_tagged
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.payload import NewerFormatError, to_json
from dredge.runs.rendering import duration_text
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectWriter, StorageOptions
from dredge.storage.parallel import at_once, ordered_map

POINTER = "state/current.json"
VERSIONS = "state/versions"
DISTRUSTED = "state/distrusted"
CLEAN, OPTIMIZED, AUTO = "clean", "optimized", "auto"
KEEP_DAYS_MIN = 7
"""What newer files of a collector's own superseded stays so long, for runs that began before."""
_AT_ONCE = 16
_VERIFY_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the state.

    Attributes:
        name: of its file.
        sha256: of the file's bytes.
    """

    name: str
    sha256: str

    @property
    def run_id(self) -> str:
        """The run that left it."""
        return self.name.rpartition("/")[2].rpartition("-")[0]


class State(Protocol):
    """What every state says."""

    @property
    def run_id(self) -> str:
        """The run it came from."""

    @property
    def clean_at(self) -> datetime:
        """When the last clean run was planned, by the store's clock."""


@dataclass(frozen=True, slots=True)
class Current[S: State]:
    """What the pointer led to.

    Attributes:
        etag: of the pointer; None when there is none.
        version: the newest version; None when the pointer leads nowhere.
        state: None when it cannot be used.
        problem: why; "" when there is nothing wrong (also when there never was a state).
    """

    etag: str | None = None
    version: Version | None = None
    state: S | None = None
    problem: str = ""


class VersionStore[S: State](ABC):
    """Reads the state and moves it on.

    Args:
        writer: on the folder of lease, index and state.
        options: how run folders are reached.
    """

    def __init__(self, writer: ObjectWriter, options: StorageOptions | None = None) -> None:
        self.writer = writer
        self._options = options

    @abstractmethod
    def parse(self, value: Mapping[str, Any]) -> S:
        """Give the state that `to_json` made; raises FormatError when it is none."""

    def find(self, fits: Mapping[str, Any]) -> Current[S]:
        """Read the newest state and see whether a run may build on it.

        Args:
            fits: what it must be about, by the name of an attribute; a value is compared as text, a callable is
                asked.

        Raises:
            RefusedError: a newer version of Dredge left it. A run of this version could undo what that one noted.
        """
        try:
            tagged = read_tagged(self.writer, POINTER)
        except DredgeError as error:
            return Current(etag=self._etag(), problem=f"{POINTER} cannot be read: {error}")
        if tagged is None:
            return Current()
        etag = tagged[0]
        try:
            pointer = json.loads(tagged[1])
            version = Version(pointer["name"], pointer["sha256"])
        except (KeyError, TypeError, ValueError) as error:
            return Current(etag=etag, problem=f"{POINTER} names no version: {error}")
        try:
            with at_once() as ask:
                trusted = ask(self._refuse_distrusted, version)
                state = self.load(version)
            for name, wanted in fits.items():
                found = getattr(state, name)
                if not (wanted(found) if callable(wanted) else wanted == found):
                    raise ValueError(f"it is about {name} {found}")
            trusted.result()
            verify(self.files(state))
        except NewerFormatError as error:
            raise error.as_refusal(f"{self.writer.uri}/{version.name}") from None
        except (DredgeError, KeyError, TypeError, ValueError) as error:
            return Current(etag, version, None, f"{version.name} cannot be used: {error}")
        return Current(etag, version, state)

    @abstractmethod
    def files(self, state: S) -> Iterable[tuple[RunFolder, PartInfo]]:
        """Give every file that a state names, with the folder that it lies in."""

    def load(self, version: Version) -> S:
        """Read a version.

        Raises:
            DredgeError: it is gone.
            ValueError: damaged.
        """
        return self.read(version.name, version.sha256)

    def newest(self) -> Version | None:
        """The version that the pointer names, whether it can be used or not; None when there never was one.

        Raises:
            FormatError: the pointer cannot be read.
        """
        try:
            pointer = read_json(self.writer, POINTER)
        except NotFoundError:
            return None
        try:
            return Version(pointer["name"], pointer["sha256"])
        except (KeyError, TypeError):
            raise FormatError(f"{POINTER} names no version") from None

    def read(self, name: str, sha256: str | None) -> S:
        """Read a version by its name.

        Args:
            name: of the file.
            sha256: of its bytes; None believes the beginning of it that is in the name.

        Raises:
            DredgeError: it is gone.
            ValueError: damaged.
        """
        data = self.writer.get(name)
        digest = hashlib.sha256(data).hexdigest()
        if digest != sha256 and (
            sha256 is not None or digest[:16] != name.removesuffix(".json").rpartition("-")[2]
        ):
            raise ValueError("its bytes do not fit the digest that names it")
        return self.parse(json.loads(data))

    def advance(self, state: S, before: Current[S], attempt: int = 0) -> Version:
        """Write a new version and let the pointer name it.

        Args:
            state: the new one.
            before: what the run found when it was planned.
            attempt: number of the try. One that a try of the same run moved already it may move again, but never
                back to what an earlier try found.

        Raises:
            ConflictError: the pointer was moved meanwhile.
        """
        data = json.dumps(to_json(state), sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()
        version = Version(f"{VERSIONS}/{state.run_id}-{digest[:16]}.json", digest)
        with at_once() as ask:
            etag_read = ask(self._etag)
            self.writer.put(version.name, data)
        ours = {**to_json(version), "run_id": state.run_id, "try": attempt}
        pointer = json.dumps(ours, sort_keys=True).encode()
        etag = etag_read.result()
        if etag != before.etag and not self._is_of_earlier_try(state.run_id, attempt):
            raise ConflictError(f"{POINTER} was moved while the run went on")
        if etag is None:
            self.writer.put_if_absent(POINTER, pointer)
        else:
            self.writer.put_if_match(POINTER, pointer, etag)
        return version

    def distrust(self, version: Version, why: str) -> None:
        """Note that a version is damaged, or holds no more, so that no run builds on it again."""
        name = f"{DISTRUSTED}/{version.name.rpartition('/')[2]}"
        self.writer.put(name, json.dumps({"why": why}).encode())

    def _refuse_distrusted(self, version: Version) -> None:
        try:
            name = f"{DISTRUSTED}/{version.name.rpartition('/')[2]}"
            why = read_json(self.writer, name)["why"]
        except NotFoundError:
            return
        raise ValueError(f"a run noted that it may not be used again: {why}")

    def _is_of_earlier_try(self, run_id: str, attempt: int) -> bool:
        try:
            found: Any = read_json(self.writer, POINTER)
        except DredgeError:
            return False
        return isinstance(found, dict) and found.get("run_id") == run_id and found.get("try", 0) < attempt

    def _etag(self) -> str | None:
        try:
            return self.writer.stat(POINTER).etag
        except NotFoundError:
            return None


def verify(files: Iterable[tuple[RunFolder, PartInfo]]) -> None:
    """See that files are there as they were written; where they are long together, they are compared by length only,
    and in full when they are read.

    Args:
        files: each with the folder that it lies in.

    Raises:
        DredgeError: one is gone or damaged.
        ValueError: one has another length.
    """
    known = list(files)
    whole = sum(part.size_bytes for _, part in known) <= _VERIFY_BYTES_MAX

    def look(item: tuple[RunFolder, PartInfo]) -> None:
        folder, part = item
        if whole:
            folder.read_bytes(part)
        elif folder.writer.stat(part.key).size != part.size_bytes:
            raise ValueError(f"{part.name} has another length")

    for _ in ordered_map(look, known, _AT_ONCE):
        pass


def choose_mode[S: State](
    mode: str, clean_every_days: float, current: Current[S], now: datetime
) -> tuple[str, str]:
    """Choose between a clean and an optimized run.

    Args:
        mode: CLEAN, OPTIMIZED or AUTO, as the user asks for.
        clean_every_days: an AUTO run is a clean one when the last clean run is as long ago.
        current: what earlier runs left.
        now: the store's time.

    Returns:
        CLEAN or OPTIMIZED, and why, as half a sentence.
    """
    if mode == CLEAN:
        return CLEAN, "asked for"
    if current.state is None:
        if current.problem:
            return CLEAN, f"the state of earlier runs is unusable: {current.problem}"
        return CLEAN, "no complete run came before"
    age = now - current.state.clean_at
    if mode == AUTO and age >= timedelta(days=clean_every_days):
        return CLEAN, f"the last clean run was {duration_text(age)} ago"
    return OPTIMIZED, f"builds on run {current.state.run_id}"
