"""State of a complete run, for the next run.

    state/versions/<run>-<digest>.json   never changed
    state/current.json                   name and digest of the newest version; written conditionally
    state/distrusted/<version>           a version found damaged by a run; it is not used again

The pointer is replaced only if it names the version under the new version, so two runs cannot both advance the
same state. An unreadable state, or a state with another digest, is not used: the next run is clean and
writes a new state.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from msgspec import Struct

from dredge.errors import ConflictError, DredgeError, FormatError, NotFoundError
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.parts import BY_DIGEST, get_part_cache
from dredge.runs.payload import NewerFormatError, PartInfo, to_json
from dredge.runs.report import duration_text
from dredge.runs.tries import read_tagged
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions
from dredge.storage.parallel import at_once, ordered_map

POINTER = "state/current.json"
VERSIONS = "state/versions"
DISTRUSTED = "state/distrusted"
CLEAN, OPTIMIZED, AUTO = "clean", "optimized", "auto"
# Superseded own files are kept so long, for runs that started before.
KEEP_DAYS_MIN = 7
_AT_ONCE = 16
_VERIFY_BYTES_MAX = 64 << 20


class Version(Struct, frozen=True):
    """A version of the state."""

    name: str
    sha256: str

    @property
    def run_id(self) -> str:
        """Id of its run."""
        return self.name.rpartition("/")[2].rpartition("-")[0]


class State(Protocol):
    """Fields of every state."""

    @property
    def run_id(self) -> str:
        """Id of its run."""

    @property
    def clean_at(self) -> datetime:
        """The store's time when the last clean run was planned."""


class Current[S: State](Struct, frozen=True):
    """The state in the pointer."""

    etag: str | None = None  # of the pointer; None if absent
    version: Version | None = None  # None if the pointer names none
    state: S | None = None  # None if it cannot be used
    problem: str = ""  # why; "" without a problem, also if there never was a state


class VersionStore[S: State](ABC):
    """Reads the state and advances it. `writer`: on the folder of lease, index and state. `options`: store options for
    run folders."""

    def __init__(self, writer: ObjectWriter, options: StorageOptions | None = None) -> None:
        self.writer = writer
        self._options = options

    @abstractmethod
    def parse(self, value: Mapping[str, Any]) -> S:
        """Return the state of a JSON object; raises FormatError."""

    def find(self, fits: Mapping[str, Any]) -> Current[S]:
        """Read the newest state, and check whether a run may build on it. `fits`: expected values by attribute; a
        callable checks the attribute. Raises RefusedError if a newer version of Dredge wrote it, because a run of this
        version could undo its changes."""
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
                    raise ValueError(f"its {name} is {found}")
            trusted.result()
            verify(self.files(state))
        except NewerFormatError as error:
            raise error.as_refusal(f"{self.writer.uri}/{version.name}") from None
        except (DredgeError, KeyError, TypeError, ValueError) as error:
            return Current(etag, version, None, f"{version.name} cannot be used: {error}")
        return Current(etag, version, state)

    @abstractmethod
    def files(self, state: S) -> Iterable[tuple[RunFolder, PartInfo]]:
        """Return all files of a state, with their folders."""

    def load(self, version: Version) -> S:
        """Read a version. Raises DredgeError: it is missing; ValueError: it is damaged."""
        return self.read(version.name, version.sha256)

    def newest(self) -> Version | None:
        """Return the version in the pointer, also if damaged; None if there never was a state. Raises
        FormatError if the pointer cannot be read."""
        try:
            pointer = read_json(self.writer, POINTER)
        except NotFoundError:
            return None
        try:
            return Version(pointer["name"], pointer["sha256"])
        except (KeyError, TypeError):
            raise FormatError(f"{POINTER} names no version") from None

    def read(self, name: str, sha256: str | None) -> S:
        """Read a version by its name. `sha256`: of its bytes; None checks the first digits, in the name. Raises
        DredgeError: it is missing; ValueError: it is damaged."""
        kept = None if sha256 is None else get_part_cache(BY_DIGEST)
        data = (None if kept is None or sha256 is None else kept.get(sha256)) or self.writer.get(name)
        digest = hashlib.sha256(data).hexdigest()
        if digest != sha256 and (
            sha256 is not None or digest[:16] != name.removesuffix(".json").rpartition("-")[2]
        ):
            raise ValueError("its bytes do not match its digest")
        if kept is not None:
            kept.put(digest, data)
        return self.parse(json.loads(data))

    def advance(
        self, state: S, before: Current[S], attempt: int = 0, settle: Callable[[], object] = lambda: None
    ) -> Version:
        """Write a new version and point to it. `before`: the state when the run was planned. `attempt`: number of the
        try. It may replace the pointer of an earlier try of the run, but not that of a later one. `settle`: called
        before the pointer is replaced; waits until all files of the state are written. Raises ConflictError: another
        run changed the pointer."""
        data = json.dumps(to_json(state), sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()
        version = Version(f"{VERSIONS}/{state.run_id}-{digest[:16]}.json", digest)
        with at_once() as ask:
            etag_read = ask(self._etag)
            self.writer.put(version.name, data)
        settle()
        ours = {**to_json(version), "run_id": state.run_id, "try": attempt}
        pointer = json.dumps(ours, sort_keys=True).encode()
        etag = etag_read.result()
        if etag != before.etag and not self._is_of_earlier_try(state.run_id, attempt):
            raise ConflictError(f"{POINTER} was changed by another run")
        if etag is None:
            self.writer.put_if_absent(POINTER, pointer)
        else:
            self.writer.put_if_match(POINTER, pointer, etag)
        return version

    def distrust(self, version: Version, why: str) -> None:
        """Mark a version as damaged: no run builds on it again."""
        name = f"{DISTRUSTED}/{version.name.rpartition('/')[2]}"
        self.writer.put(name, json.dumps({"why": why}).encode())

    def _refuse_distrusted(self, version: Version) -> None:
        try:
            name = f"{DISTRUSTED}/{version.name.rpartition('/')[2]}"
            why = read_json(self.writer, name)["why"]
        except NotFoundError:
            return
        raise ValueError(f"an earlier run marked it as damaged: {why}")

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


def read_pointer(reader: ObjectReader) -> tuple[str | None, str]:
    """ETag of the pointer, and the id of the run that advanced the state; None and "" if there never was a state."""
    tagged = read_tagged(reader, POINTER)
    if tagged is None:
        return None, ""
    try:
        return tagged[0], json.loads(tagged[1])["run_id"]
    except (KeyError, TypeError, ValueError):
        return tagged[0], ""


def verify(files: Iterable[tuple[RunFolder, PartInfo]]) -> None:
    """Check files: small ones completely, many bytes by length only; those are checked when they are read. Raises
    DredgeError: a file is missing or damaged; ValueError: a file has another length."""
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
    """Choose between a clean and an optimized run. `mode`: CLEAN, OPTIMIZED or AUTO. `clean_every_days`: age of the
    last clean run at which an AUTO run is clean. Returns CLEAN or OPTIMIZED, and the reason, half a sentence."""
    if mode == CLEAN:
        return CLEAN, "asked for"
    if current.state is None:
        if current.problem:
            return CLEAN, f"the state of earlier runs is unusable: {current.problem}"
        return CLEAN, "there is no earlier complete run"
    age = now - current.state.clean_at
    if mode == AUTO and age >= timedelta(days=clean_every_days):
        return CLEAN, f"the last clean run was {duration_text(age)} ago"
    return OPTIMIZED, f"builds on run {current.state.run_id}"
