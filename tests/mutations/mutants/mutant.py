"""What a mutant is: a line of the product, broken in one place by a rule."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Key(NamedTuple):
    """Which mutant it is, wherever its line moves within the function.

    Attributes:
        file: from the root of the tree.
        function: its qualified name; "" is the module itself.
        old: what stood there, as Python writes it.
        new: what stands there now.
        number: counts equal ones within the function, from 1.
    """

    file: str
    function: str
    old: str
    new: str
    number: int = 1

    def __str__(self) -> str:
        where = f"{self.file} {self.function or '(module)'}"
        return f"{where}: {self.old}  ->  {self.new}{f' ({self.number})' if self.number > 1 else ''}"


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a tree.

    Attributes:
        function: qualified name of the innermost function around it; "" for what the import itself does.
        outer: qualified name and first line of the outermost function around it.
        first_line, last_line: what is changed.
        old, new: its text.
        apply: changes the tree.
    """

    function: str
    outer: tuple[str, int] | None
    first_line: int
    last_line: int
    old: str
    new: str
    apply: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One of the ways to break a file.

    Attributes:
        key: which one.
        outer: qualified name and first line of the outermost function around it; None when the import runs it.
        line: where.
        last_line: where it ends.
        index: among the file's.
    """

    key: Key
    outer: tuple[str, int] | None
    line: int
    last_line: int
    index: int


type Finder = Callable[[ast.Module], Iterator[Edit]]
"""Finds what can be broken in a tree, always in the same order."""


def mutants_of(root: Path, file: str, find: Finder) -> list[Mutant]:
    """List the mutants of a file.

    Args:
        root: of the tree.
        file: from there.
        find: what can be broken.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    mutants = []
    for index, edit in enumerate(find(ast.parse((root / file).read_text()))):
        what = (edit.function, edit.old, edit.new)
        seen[what] += 1
        key = Key(file, *what, seen[what])
        mutants.append(Mutant(key, edit.outer, edit.first_line, edit.last_line, index))
    return mutants


def mutated(root: Path, mutant: Mutant, find: Finder) -> ast.Module:
    """Give the tree of a mutant's file, broken."""
    tree = ast.parse((root / mutant.key.file).read_text())
    list(find(tree))[mutant.index].apply()
    return ast.fix_missing_locations(tree)
