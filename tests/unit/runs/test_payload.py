"""Files of payloads: nothing of them may be missing, changed, or of another format."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from dredge.errors import FormatError
from dredge.runs.payload import from_file, from_json, from_sealed, from_versioned, to_json, to_sealed


@dataclass(frozen=True)
class Inner:
    name: bytes
    seen: datetime | None = None


@dataclass(frozen=True)
class Outer:
    inner: Inner
    many: tuple[Inner, ...] = ()
    by_name: Mapping[str, Inner] = field(default_factory=dict)
    keep: bool = False
    format: int = 2

    @property
    def digest(self) -> str:
        return repr(self)


INNER = Inner(b"\xff", datetime(2026, 1, 1, tzinfo=UTC))
OUTER = Outer(INNER, (INNER, INNER), {"a": INNER}, keep=True)


def without(value: Any, path: tuple[str | int, ...]) -> Any:
    if isinstance(value, list | tuple):
        at = path[0]
        return [without(item, path[1:]) if number == at else item for number, item in enumerate(value)]
    name, *below = path
    rest = {key: item for key, item in value.items() if key != name}
    return rest | {name: without(value[name], tuple(below))} if below else rest


@pytest.mark.parametrize(
    "path",
    [("inner", "seen"), ("many",), ("many", 1, "seen"), ("by_name",), ("by_name", "a", "seen"), ("keep",)],
    ids=repr,
)
def test_a_file_that_lacks_a_field_is_refused_also_where_that_has_a_default(
    path: tuple[str | int, ...],
) -> None:
    value = to_json(OUTER)
    assert from_file(Outer, value) == from_versioned(Outer, value, 2) == OUTER
    lacking = without(value, path)
    assert from_json(Outer, lacking) != OUTER
    with pytest.raises(FormatError):
        from_file(Outer, lacking)
    with pytest.raises(FormatError):
        from_versioned(Outer, lacking, 2)


@pytest.mark.parametrize("found", [1, 3, None, "2"])
def test_a_file_of_another_format_is_refused(found: object) -> None:
    with pytest.raises(FormatError):
        from_versioned(Outer, to_json(OUTER) | {"format": found}, 2)


@pytest.mark.parametrize("change", [{"keep": False}, {"digest": "another"}])
def test_a_sealed_file_that_was_changed_is_refused(change: dict[str, object]) -> None:
    assert from_sealed(Outer, to_sealed(OUTER)) == OUTER
    with pytest.raises(FormatError):
        from_sealed(Outer, to_sealed(OUTER) | change)


def test_an_error_names_the_field_and_not_what_it_holds() -> None:
    with pytest.raises(FormatError) as error:
        from_json(Outer, to_json(OUTER) | {"keep": "s3cr3t"})
    assert "keep" in str(error.value)
    assert "s3cr3t" not in str(error.value)


TWO_THREADS = """
import threading
from dataclasses import dataclass
from dredge.runs.payload import from_json

begun, goes_on = threading.Event(), threading.Event()

class Slow:
    @property
    def kind(self):
        begun.set()
        goes_on.wait(5)
        return int

slow = Slow()

@dataclass(frozen=True)
class Inner:
    one: "int"
    two: "slow.kind"

@dataclass(frozen=True)
class Outer:
    inner: "Inner"

found = []
threads = [
    threading.Thread(target=lambda: found.append(from_json(Outer, {"inner": {"one": 1, "two": 2}})))
    for _ in range(2)
]
threads[0].start()
begun.wait(5)
threads[1].start()
threads[1].join(0.2)
goes_on.set()
for thread in threads:
    thread.join()
assert found == [Outer(Inner(1, 2))] * 2
"""


def test_two_threads_may_convert_to_a_class_for_the_first_time() -> None:
    # msgspec alone crashes here, or never returns.
    done = subprocess.run([sys.executable, "-c", TWO_THREADS], timeout=60, check=False)
    assert done.returncode == 0
