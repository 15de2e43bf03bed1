"""Stores in a folder whose methods tests can stand in (`stand_ins.py`). Its import puts them behind `file://`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dredge.storage import DeleteOutcome
from dredge.storage.local import store
from dredge.storage.opening import KINDS, Driver
from dredge.storage.undo import StreamedCopier, VersionReader
from tests.support.stand_ins import can_be_stood_in, standing_in


class LocalReader(store.LocalReader):
    get = can_be_stood_in(store.LocalReader.get)
    list = can_be_stood_in(store.LocalReader.list)


class LocalWriter(LocalReader, store.LocalWriter):
    put = can_be_stood_in(store.LocalWriter.put)
    put_if_absent = can_be_stood_in(store.LocalWriter.put_if_absent)
    put_if_match = can_be_stood_in(store.LocalWriter.put_if_match)


class LocalDeleter(store.LocalDeleter):
    delete = can_be_stood_in(store.LocalDeleter.delete)


KINDS["local"] = lambda: Driver(
    reader=lambda location, _: LocalReader(location),
    writer=lambda location, _: LocalWriter(location),
    deleter=lambda location, _: LocalDeleter(location),
    copier=lambda source, target, _: StreamedCopier(LocalReader(source), LocalWriter(target)),
    versions=lambda _location, _options: VersionReader(),
)


class DiedError(Exception):
    """The process is gone."""


@contextmanager
def dying_while_deleting(left: int) -> Iterator[None]:
    """Let the process die after it has deleted so many objects of a collection's repository."""

    def delete(honest: Any, deleter: LocalDeleter, keys: Sequence[str], *gate: Any) -> list[DeleteOutcome]:
        nonlocal left
        if deleter.uri.endswith("/_dredge"):  # own files
            return list(honest(deleter, keys, *gate))
        some = list(keys)[:left]
        left -= len(some)
        found = list(honest(deleter, some, *gate)) if some else []
        if len(some) < len(keys):
            raise DiedError
        return found

    with standing_in(LocalDeleter.delete, delete):
        yield


@contextmanager
def dying_before_a_write(left: int) -> Iterator[None]:
    """Let the process die before the write after so many: it writes nothing any more."""

    def write(honest: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise DiedError
        return honest(*arguments, **more)

    with (
        standing_in(LocalWriter.put, write),
        standing_in(LocalWriter.put_if_absent, write),
        standing_in(LocalWriter.put_if_match, write),
    ):
        yield
