"""What looking for known bugs gave, a line of JSON for each look: a hunt for all of them is long, and goes on here.

Several processes may write to one file at once, each its own part of the bugs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("dredge", "lakefs_embedded", "tests/simulation")


@dataclass(frozen=True)
class Look:
    """How long one bug was looked for, and what was found.

    Attributes:
        world: that it belongs to.
        name: of the bug.
        source: of product and simulator; see `source_of_tree`.
        rule: that was broken; "" where none was.
        seed: the last one that was played.
        histories: that were played, the last one included.
        seconds: of one core that they took.
        errors: histories that ended with an error which is no broken rule.
        words: of the rule, or of the last such error.
    """

    world: str
    name: str
    source: str = ""
    rule: str = ""
    seed: int = 0
    histories: int = 0
    seconds: float = 0.0
    errors: int = 0
    words: str = ""

    def after(self, earlier: Look | None) -> Look:
        """This look and the one that it goes on from, as one."""
        if earlier is None:
            return self
        return replace(
            self,
            histories=earlier.histories + self.histories,
            seconds=earlier.seconds + self.seconds,
            errors=earlier.errors + self.errors,
        )


class Results:
    """A file of looks; the last one of a bug counts.

    Args:
        path: of the file, which need not be there; None keeps nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._looks = {(look.world, look.name): look for look in self._read()}

    def of(self, world: str, name: str) -> Look | None:
        """What is known of a bug."""
        return self._looks.get((world, name))

    def add(self, look: Look) -> None:
        """Keep what a look gave: one write, so that others may write as well."""
        self._looks[look.world, look.name] = look
        if self._path is not None:
            with self._path.open("ab", buffering=0) as file:
                file.write(json.dumps(asdict(look)).encode() + b"\n")

    def _read(self) -> Iterator[Look]:
        if self._path is None or not self._path.exists():
            return
        known = {field.name for field in fields(Look)}
        for line in self._path.read_text().splitlines():
            yield Look(**{name: value for name, value in json.loads(line).items() if name in known})


@cache
def source_of_tree() -> str:
    """A digest of all that a history depends on: the product's code and the simulator's."""
    digest = hashlib.blake2b(digest_size=8)
    for path in _python_files(ROOT / folder for folder in SOURCES):
        digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _python_files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        for root, names, files in os.walk(folder):
            names.sort()
            for name in sorted(files):
                if name.endswith(".py") and not name.startswith("test_"):
                    yield Path(root, name)
