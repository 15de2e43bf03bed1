"""Values as JSON, for tasks and for files of runs and states; the summary of a step, its parts, and typed views of it.

A payload is a frozen `Struct` or dataclass of text, numbers, bytes, times, tuples, mappings, and other payloads. Its
fields are its format. A missing or mistyped field is an error with the field's name.

A summary is written last. A reader of a step uses only the parts in its summary, so files of a killed try do no harm.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol, Self

import msgspec
from msgspec import Struct, field

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
    of another type; DredgeError: `__post_init__` of the class refused it."""
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
    another type; DredgeError: `__post_init__` of the class refused it."""
    found = from_json(kind, value)
    lacking = _lacking(found, value)
    if lacking:
        raise FormatError(f"this is no {kind.__name__}: it lacks {lacking}")
    return found


def _lacking(found: object, value: object) -> str:
    """Return the first field of a payload that its JSON lacks; "" if it has all."""
    pairs: Iterable[tuple[str, object, object]] = ()
    if isinstance(value, dict):
        names: Iterable[str] = ()
        if isinstance(found, Struct):
            names = found.__struct_fields__
        elif dataclasses.is_dataclass(found):
            names = [item.name for item in dataclasses.fields(found)]
        if names:
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


# Fields that are not part of the digest.
_NO_MATTER = ("started_at", "finished_at", "warnings")

type Status = Literal["success", "dry_run", "awaiting_approval", "rejected", "refused", "partial", "alarm"]


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A file of a step."""

    name: str  # how other steps find it, such as "committed/ranges-00000.parquet"
    rows: int  # number of rows, or of values in a file of bare numbers
    size_bytes: int
    sha256: str
    key: str = ""  # relative to the folder it was written to; a try has its own folder. "" is the name.

    def __post_init__(self) -> None:
        if not self.key:
            object.__setattr__(self, "key", self.name)


class StepSummary(Struct, frozen=True):
    """The result of a step."""

    step: str
    run_id: str
    # "success"; "dry_run" if a deleting run would make changes; "awaiting_approval"; "rejected" by a person; "refused"
    # by a guard; "partial" if some objects could not be deleted; "alarm" if live objects had been deleted. The first
    # two are complete.
    status: Status
    started_at: datetime
    finished_at: datetime
    # by name, unit last (`candidates_objects`, `candidates_bytes`)
    counts: Mapping[str, int] = field(default_factory=dict)
    parts: tuple[PartInfo, ...] = ()
    # digests of the input steps, by step; of the plan for a step without inputs
    inputs: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    try_number: int = 0  # 0 for a step without tries

    @property
    def digest(self) -> str:
        """SHA-256 of all fields except times and warnings.

        The try number is included: after another try, dependent steps must run again, even if the results are equal.
        """
        matter = {name: value for name, value in to_json(self).items() if name not in _NO_MATTER}
        return hashlib.sha256(json.dumps(matter, sort_keys=True).encode()).hexdigest()

    @property
    def seconds(self) -> float:
        """Duration of the step."""
        return (self.finished_at - self.started_at).total_seconds()

    def part(self, name: str) -> PartInfo:
        """Return a part by name. Raises FormatError if there is no such part."""
        for part in self.parts:
            if part.name == name:
                return part
        raise FormatError(f"run {self.run_id}: step {self.step} lists no part {name}. Run the step again.")

    def parts_below(self, prefix: str) -> list[PartInfo]:
        """Return the parts whose names start with a prefix, in recorded order."""
        return [part for part in self.parts if part.name.startswith(prefix)]

    def as_xcom(self) -> dict[str, Any]:
        """Return figures for an orchestrator, without lists of files."""
        return {
            "step": self.step,
            "run_id": self.run_id,
            "status": self.status,
            "counts": dict(self.counts),
            "warnings": list(self.warnings),
            "digest": self.digest,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class StepOutput:
    """A typed view of a step's summary. Each step has a subclass with its name, its inputs, its files and figures."""

    STEP: ClassVar[str]  # the step's name: task id, package, and folder in the store
    # outputs of the input steps; () for a step after the plan
    INPUTS: ClassVar[tuple[type[StepOutput], ...]] = ()

    summary: StepSummary

    @classmethod
    def of(cls, summary: StepSummary) -> Self:
        """View a summary. Raises FormatError if the summary is of another step."""
        if summary.step != cls.STEP:
            raise FormatError(f"run {summary.run_id}: a summary of {summary.step}, not of {cls.STEP}")
        return cls(summary)

    @property
    def digest(self) -> str:
        """Digest of the summary."""
        return self.summary.digest

    @property
    def counts(self) -> Mapping[str, int]:
        """Figures by name, unit last."""
        return self.summary.counts

    def detail(self, name: str) -> Any:
        """Return a detail. Raises FormatError if the step wrote no such detail."""
        try:
            return self.summary.details[name]
        except KeyError:
            raise FormatError(
                f"run {self.summary.run_id}: the summary of step {self.STEP} has no {name}. Run the step again."
            ) from None

    def part(self, name: str) -> PartInfo:
        """Return the part `<step>/<name>`; raises FormatError if there is none."""
        return self.summary.part(f"{self.STEP}/{name}")

    def parts(self, prefix: str) -> list[PartInfo]:
        """Return the parts whose names start with `<step>/<prefix>`, in recorded order."""
        return self.summary.parts_below(f"{self.STEP}/{prefix}")


class NamedPart:
    """An attribute of a step's output: its part of this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, output: StepOutput, _: type[StepOutput]) -> PartInfo:
        return output.part(self._name)


class NamedParts:
    """An attribute of a step's output: its parts with names that start like this, in recorded order."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __get__(self, output: StepOutput, _: type[StepOutput]) -> list[PartInfo]:
        return output.parts(self._prefix)


_DEMANDED: Any = object()


class Detail[T]:
    """An attribute of a step's output: a detail, as a payload of a type if one is given. Raises FormatError without
    the detail, unless it has a default."""

    def __init__(self, name: str, kind: type[T] | None = None, default: Any = _DEMANDED) -> None:
        self._name = name
        self._kind = kind
        self._default = default

    def __get__(self, output: StepOutput, _: type[StepOutput]) -> T:
        if self._default is not _DEMANDED and self._name not in output.summary.details:
            found: T = self._default
            return found
        found = output.detail(self._name)
        return found if self._kind is None else from_json(self._kind, found)
