"""What the tasks of a step read from the environment while they run in the Airflow worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from dredge.process import environment
from dredge.storage import StorageOptions, environment_of_child


class HasOptions(Protocol):
    """A run of any collection."""

    @property
    def options(self) -> StorageOptions | None:
        """How its stores are reached; None when this process's environment says it already."""


@contextmanager
def tasks_environment(run: HasOptions, more: Mapping[str, str] | None = None) -> Iterator[None]:
    """Let a step's tasks, which read the environment wherever they run, reach the object store from here.

    :param run: opened with the options of the store
    :param more: further variables of the step
    """
    variables = (environment_of_child(run.options) if run.options is not None else {}) | dict(more or {})
    with environment(variables):
        yield
