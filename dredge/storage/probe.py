"""Probes of a store: its clock, its conditional writes, and the rights in a folder.

Only the store's clock may be compared with an object's Last-Modified.
"""

import zlib
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from msgspec import Struct, field

from dredge.errors import (
    ConfigError,
    ConflictError,
    DredgeError,
    FormatError,
    NotFoundError,
    RefusedError,
)
from dredge.storage.model import ObjectDeleter, ObjectWriter
from dredge.storage.opening import open_deleter, open_reader, open_writer
from dredge.storage.options import StorageOptions

PROBE = ".dredge-clock"
_PROBES = 256
"""Number of probe objects: enough that workers seldom write the same one."""


def probe_of(task: str) -> str:
    """Name of a probe for frequent questions of a task: Google Cloud Storage allows an object one write per second."""
    return f"{PROBE}-{zlib.crc32(task.encode()) % _PROBES:02x}"


def store_clock(writer: ObjectWriter, folder: str, probe: str = PROBE) -> datetime:
    """The store's time: the Last-Modified of a small object, written by this call. `folder`: key prefix of the probe,
    which every call overwrites. It is below `data/` only if the caller says so. `probe`: its name. A later write by
    another process is as good an answer. Returns aware UTC; whole seconds on S3, rounded down."""
    base = folder.strip("/")
    key = f"{base}/{probe}" if base else probe
    writer.put(key, b"The time this object was written is the store's clock. It is not needed otherwise.\n")
    return writer.stat(key).last_modified


def demand_conditions(writer: ObjectWriter) -> None:
    """Refuse a store without conditional writes; `store_clock` must have written its probe there. Raises RefusedError:
    the store ignored the condition, or has no such request."""
    try:
        writer.put_if_absent(PROBE, b"A store that has this instead of the probe knows no conditions.\n")
    except ConflictError:
        return
    except ConfigError as error:
        if error.kind != ConfigError.kind or "NotImplemented" not in str(error):
            raise
    raise RefusedError(
        f"{writer.uri}: this store does not support conditional writes (If-None-Match, or ifGenerationMatch). Without"
        " them two runs can work at the same time, and delete by each other's plans. Nothing was deleted. Use a"
        " version of the store that supports them."
    )


NAME = ".dredge-check"
_DATA = b"Dredge tries here what it may do. It removes this object at once; it may be deleted at any time.\n"
WRITE, LIST, READ, CONDITIONS, DELETE = "write", "list", "read", "conditions", "delete"
ORDER = "order"
_ORDERED = ("-B", "-a-x", "-a/x")
"""Names in byte order. An order that ignores case puts the first one last; an order by folders swaps the last two."""


class Probed(Struct):
    """Results in a folder."""

    uri: str
    # errors by right: `WRITE`, `LIST`, `READ`, `CONDITIONS`, `ORDER`, `DELETE`
    refused: dict[str, DredgeError] = field(default_factory=dict)
    now: datetime | None = None
    left: str = ""  # URI of the object, if it could not be deleted; else ""
    has_bulk: bool | None = None  # whether the store has bulk deletes; None if its driver has no choice


def probe(uri: str, name: str, options: StorageOptions | None = None) -> Probed:
    """Write, list, read and delete a few small objects; `name` makes their names unique."""
    writer, found, key = open_writer(uri, options), Probed(uri), f"{NAME}-{name}"

    def attempt(right: str, action: Callable[[], object]) -> bool:
        try:
            action()
        except DredgeError as error:
            found.refused[right] = error
        return right not in found.refused

    if not attempt(WRITE, lambda: _write(writer, key)):
        attempt(LIST, lambda: _first(uri, key, options))
        return found
    try:
        attempt(LIST, lambda: _expect(key in _first(uri, key, options), f"{uri} does not list {key}"))
        attempt(
            READ, lambda: _expect(writer.get(key) == _DATA, f"{uri}/{key} differs from the written bytes")
        )
        attempt(CONDITIONS, lambda: _write_again(writer, key))
        if LIST not in found.refused:
            attempt(ORDER, lambda: _list_in_order(writer, key, options))
        with suppress(DredgeError):  # the line about reading says why
            found.now = writer.stat(key).last_modified
    finally:
        deleter = open_deleter(uri, options)
        if not attempt(DELETE, lambda: _delete(deleter, key)):
            found.left = f"{uri}/{key}"
        found.has_bulk = getattr(deleter, "has_bulk", None)
    return found


def reaches(uri: str, options: StorageOptions | None = None) -> bool:
    """Whether the credentials may list the whole bucket of a folder; False for local folders and whole buckets."""
    scheme, separator, rest = uri.partition("://")
    bucket, _, prefix = rest.strip("/").partition("/")
    if not separator or not prefix or scheme in ("file", "local", "memory"):
        return False
    try:
        next(iter(open_reader(f"{scheme}://{bucket}", options).list()), None)
    except (ConfigError, NotFoundError):
        return False
    return True


def _write(writer: ObjectWriter, key: str) -> None:
    writer.put(key, _DATA)


def _first(uri: str, key: str, options: StorageOptions | None) -> list[str]:
    batch = next(iter(open_reader(uri, options).list(key)), None)
    return [] if batch is None else batch["key"].to_pylist()


def _write_again(writer: ObjectWriter, key: str) -> None:
    with suppress(ConflictError):
        writer.put_if_absent(key, _DATA)
        raise RefusedError(
            f"{writer.uri}: this store replaced an object despite the condition that none exists (If-None-Match, or"
            " ifGenerationMatch)"
        )


def _list_in_order(writer: ObjectWriter, key: str, options: StorageOptions | None) -> None:
    # A listing checks its own order.
    keys = [key, *(f"{key}{end}" for end in _ORDERED)]
    for more in keys[1:]:
        _write(writer, more)
    batches = open_reader(writer.uri, options).list(key)
    found = [name for batch in batches for name in batch["key"].to_pylist()]
    _expect(found == keys, f"{writer.uri} lists {found}, but has {keys}")


def _delete(deleter: ObjectDeleter, key: str) -> None:
    for outcome in deleter.delete([key, *(f"{key}{end}" for end in _ORDERED)]):
        if outcome.outcome not in ("deleted", "missing"):
            raise RefusedError(
                f"{deleter.uri}/{outcome.key} could not be deleted: {outcome.code} {outcome.message or ''}".rstrip()
            )


def _expect(holds: bool, text: str) -> None:
    if not holds:
        raise FormatError(text)
