"""The key-value drivers that the conformance suite runs on; a new driver adds itself here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Driver:
    """How the suite gets a fresh, empty store.

    Attributes:
        fresh_url: context manager: a URL for `open_store` that nobody has used, valid inside the context.
        shared: whether a second `open_store` of the URL, also in another process, sees the same keys.
        longest_value: bytes of the largest value the suite may write.
    """

    fresh_url: Callable[[Path, pytest.FixtureRequest], Any]
    shared: bool = True
    longest_value: int = 20 << 20


@contextmanager
def _memory(folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    yield "memory://"


@contextmanager
def _sqlite(folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    yield f"sqlite://{folder}/kv%20store.db"


DRIVERS: dict[str, Driver] = {"memory": Driver(_memory, shared=False), "sqlite": Driver(_sqlite)}
