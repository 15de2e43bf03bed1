"""Where the state lies, and how it moves on.

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
import logging
from dataclasses import dataclass
from typing import Any

from dredge.errors import ConflictError, DredgeError, FormatError, NotFoundError
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.state.model import RunState
from dredge.gc.state.version import Version
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectWriter, StorageOptions, open_writer

log = logging.getLogger("dredge")

POINTER = "state/current.json"
VERSIONS = "state/versions"
DISTRUSTED = "state/distrusted"
_VERIFY_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class Current:
    """What the pointer led to.

    Attributes:
        etag: of the pointer; None when there is none.
        version: the newest version; None when the pointer leads nowhere.
        state: None when it cannot be used.
        problem: why; "" when there is nothing wrong (also when there never was a state).
    """

    etag: str | None = None
    version: Version | None = None
    state: RunState | None = None
    problem: str = ""


class StateStore:
    """Reads the state and moves it on.

    Args:
        writer: on the folder of lease, index and state.
        options: how run folders are reached.
    """

    def __init__(self, writer: ObjectWriter, options: StorageOptions | None = None) -> None:
        self._writer = writer
        self._options = options

    def current(self, repository: str, namespace: str) -> Current:
        """Read the newest state and see whether a run may build on it.

        Args:
            repository: that it must be about.
            namespace: that it must be about.
        """
        try:
            etag = self._writer.stat(POINTER).etag
            pointer = read_json(self._writer, POINTER)
        except NotFoundError:
            return Current()
        except DredgeError as error:
            return Current(etag=self._etag(), problem=f"{POINTER} cannot be read: {error}")
        try:
            version = Version(pointer["name"], pointer["sha256"])
        except (KeyError, TypeError):
            return Current(etag=etag, problem=f"{POINTER} names no version")
        try:
            state = self.load(version)
            self._check(state, repository, namespace, version)
        except (DredgeError, KeyError, TypeError, ValueError) as error:
            return Current(etag, version, None, f"{version.name} cannot be used: {error}")
        return Current(etag, version, state)

    def load(self, version: Version) -> RunState:
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
            pointer = read_json(self._writer, POINTER)
        except NotFoundError:
            return None
        try:
            return Version(pointer["name"], pointer["sha256"])
        except (KeyError, TypeError):
            raise FormatError(f"{POINTER} names no version") from None

    def read(self, name: str, sha256: str | None) -> RunState:
        """Read a version by its name.

        Args:
            name: of the file.
            sha256: of its bytes; None believes the beginning of it that is in the name.

        Raises:
            DredgeError: it is gone.
            ValueError: damaged.
        """
        data = self._writer.get(name)
        digest = hashlib.sha256(data).hexdigest()
        if digest != sha256 and (
            sha256 is not None or digest[:16] != name.removesuffix(".json").rpartition("-")[2]
        ):
            raise ValueError("its bytes do not fit the digest that names it")
        return RunState.from_json(json.loads(data))

    def advance(self, state: RunState, before: Current, attempt: int = 0) -> Version:
        """Write a new version and let the pointer name it.

        Args:
            state: the new one.
            before: what the run found when it was planned.
            attempt: number of the try. One that a try of the same run moved already it may move again, but never
                back to what an earlier try found.

        Raises:
            ConflictError: the pointer was moved meanwhile.
        """
        data = json.dumps(state.to_json(), sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()
        version = Version(f"{VERSIONS}/{state.run_id}-{digest[:16]}.json", digest)
        self._writer.put(version.name, data)
        ours = {**version.to_json(), "run_id": state.run_id, "try": attempt}
        pointer = json.dumps(ours, sort_keys=True).encode()
        etag = self._etag()
        if etag != before.etag and not self._is_of_earlier_try(state.run_id, attempt):
            raise ConflictError(f"{POINTER} was moved while the run went on")
        if etag is None:
            self._writer.put_if_absent(POINTER, pointer)
        else:
            self._writer.put_if_match(POINTER, pointer, etag)
        return version

    def distrust(self, version: Version, why: str) -> None:
        """Note that a version is damaged, so that no run builds on it again."""
        name = f"{DISTRUSTED}/{version.name.rpartition('/')[2]}"
        self._writer.put(name, json.dumps({"why": why}).encode())

    def _is_of_earlier_try(self, run_id: str, attempt: int) -> bool:
        try:
            found: Any = read_json(self._writer, POINTER)
        except DredgeError:
            return False
        return isinstance(found, dict) and found.get("run_id") == run_id and found.get("try", 0) < attempt

    def _etag(self) -> str | None:
        try:
            return self._writer.stat(POINTER).etag
        except NotFoundError:
            return None

    def _check(self, state: RunState, repository: str, namespace: str, version: Version) -> None:
        if state.repository != repository:
            raise ValueError(f"it is about repository {state.repository}")
        if canonical_namespace(state.namespace) != canonical_namespace(namespace):
            raise ValueError(f"it is about namespace {state.namespace}")
        try:
            name = f"{DISTRUSTED}/{version.name.rpartition('/')[2]}"
            why = read_json(self._writer, name)["why"]
        except NotFoundError:
            pass
        else:
            raise ValueError(f"a run found it damaged: {why}")
        run = RunFolder(open_writer(state.run_uri, self._options), state.run_id)
        counted = RunFolder(self._writer, state.run_id)
        files = [(run, part) for part in state.parts]
        files += [(counted, part) for part in state.counted.parts]
        for located in state.sizes:
            folder = RunFolder(open_writer(located.uri, self._options), state.run_id)
            files += [(folder, part) for part in located.hashes.shards.values()]
        whole = sum(part.size_bytes for _, part in files) <= _VERIFY_BYTES_MAX
        for folder, part in files:
            _verify(folder, part, whole)


def _verify(folder: RunFolder, part: PartInfo, whole: bool) -> None:
    """A file is there as it was written; long ones are compared by length only, and in full when they are
    read."""
    if whole:
        folder.read_bytes(part)
    elif folder.writer.stat(part.key).size != part.size_bytes:
        raise ValueError(f"{part.name} has another length")
