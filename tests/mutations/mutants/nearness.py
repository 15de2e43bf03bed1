"""How near a file of tests is to a file of the product: near ones are asked first, and most mutants end there.

Nothing is run to know it: tests mirror the source path for path, and import what they are about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path, PurePosixPath

OWN, ROOM, AROUND, REST = range(4)
"""The file's own tests; those of its folder; those directly in the folders above, and those that name it; the rest."""


class Nearness:
    """Sorts the files of tests around a file of the product.

    Args:
        root: of the tree.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._text = cache(lambda file: (root / file).read_text())

    def of(self, tests: str, file: str) -> int:
        """Give the ring, `OWN` to `REST`.

        Args:
            tests: a file of tests, from the root.
            file: of the product, from there.
        """
        rooms, folders = PurePosixPath(tests).parts[:-1], _mirrored(file)
        if rooms[-len(folders) :] == folders:
            return OWN if _stem(tests).startswith(f"test_{_stem(file)}") else ROOM
        above = (folders[:size] for size in range(1, len(folders)))
        is_around = any(rooms[-len(some) :] == some for some in above) or self._names(tests, file)
        return AROUND if is_around else REST

    def rings(self, file: str, tests: Iterable[str]) -> list[list[str]]:
        """Sort files of tests by how near they are to a file of the product."""
        found: list[list[str]] = [[] for _ in range(REST + 1)]
        for name in tests:
            found[self.of(name, file)].append(name)
        return found

    def _names(self, tests: str, file: str) -> bool:
        """Whether tests import a module, or patch something there."""
        package, name = ".".join(PurePosixPath(file).parts[:-1]), _stem(file)
        imports = rf"from (\w+\.)?{re.escape(package)} import (\([^)]*|.*)\b{name}\b"
        return bool(re.search(rf"\b{re.escape(f'{package}.{name}')}\b|{imports}", self._text(tests)))


def _mirrored(file: str) -> tuple[str, ...]:
    return tuple(part for part in PurePosixPath(file).parts[:-1] if part != "dredge")


def _stem(file: str) -> str:
    return PurePosixPath(file).stem
