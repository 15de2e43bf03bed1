"""Whether an object exists, where the store refuses to describe it."""

from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import ConfigError
from dredge.storage import exists, open_writer


def denied(_key: str) -> Any:
    raise ConfigError("AccessDenied")


@pytest.mark.parametrize(
    ("key", "found"), [("data/a", True), ("data/", False), ("data/b", False), ("top", True)]
)
def test_a_listing_shows_an_object_that_the_store_does_not_describe(key: str, found: bool) -> None:
    writer = open_writer("memory://denied/exists")
    for name in ("data/a", "data/aa", "top"):
        writer.put(name, b"x")
    reader: Any = SimpleNamespace(list=writer.list, stat=denied)
    assert exists(reader, key) is found


def test_without_a_listing_the_refusal_is_raised() -> None:
    reader: Any = SimpleNamespace(list=lambda *_: denied(""), stat=denied)
    with pytest.raises(ConfigError):
        exists(reader, "data/a")
