"""The key-value drivers of the conformance suite; a new driver adds itself here."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.dynamodb import table_url


@dataclass(frozen=True)
class Driver:
    # context manager: a new URL for `open_store`, valid inside the context
    fresh_url: Callable[[Path, pytest.FixtureRequest], Any]
    # how many keys a test about pages writes: around the driver's pages
    counts: tuple[int, ...]
    # whether a second `open_store` of the URL, also in another process, sees the same keys
    shared: bool = True
    longest_value: int = 20 << 20  # bytes of the largest value the suite may write
    most_keys: int = 10_000  # how many keys a test may write, where the test is about many
    racers: int = 6  # threads or processes that race
    race_writes: int = 40  # writes of each that races
    examples: int = 60  # random histories


@contextmanager
def _memory(folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    yield "memory://"


@contextmanager
def _sqlite(folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    yield f"sqlite://{folder}/kv%20store.db"


@contextmanager
def _postgres(folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.getfixturevalue("postgres").new_database()


@contextmanager
def _dynamodb(folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setattr("dredge.kv.dynamodb.PAGE_ITEMS", 32)  # pages are crossed with fewer keys
        yield table_url(request.getfixturevalue("dynamodb"))


DRIVERS: dict[str, Driver] = {
    # A request of the stand-in server takes milliseconds.
    "dynamodb": Driver(
        _dynamodb,
        longest_value=390_000,
        most_keys=65,
        counts=(1, 31, 32, 33, 64, 65),
        racers=3,
        race_writes=12,
        examples=20,
    ),
    "memory": Driver(_memory, (1, 255, 256, 257, 513), shared=False),
    "postgresql": Driver(_postgres, (1, 999, 1000, 1001, 2001)),
    "sqlite": Driver(_sqlite, (1, 499, 500, 501, 1001)),
}
