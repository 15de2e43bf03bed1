"""What became of each mutant, kept in a file that grows by a line for each, so that work goes on where it stopped."""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutations.mutants.mutant import Key, Mutant


class Result(NamedTuple):
    """What became of a mutant.

    Attributes:
        by: who found it: a test, a seed of the simulator, "time", "error"; "" when nobody did.
        tests: how many were run.
        seconds: of processor.
    """

    by: str
    tests: int
    seconds: float


class Results:
    """The file.

    Args:
        path: of it.
        root: of the tree.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = root
        self._known: dict[tuple[Key, str], Result] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            key, digest, result = json.loads(line)
            self._known[Key(*key), digest] = Result(*result)
        self._digests: dict[str, dict[str, str]] = {}

    def get(self, mutant: Mutant) -> Result | None:
        """What is known of a mutant of the function as it is now."""
        return self._known.get((mutant.key, self.digest(mutant)))

    def found(self) -> dict[str, Counter[str]]:
        """What each test found in each file."""
        counts: dict[str, Counter[str]] = {}
        for (key, _), result in self._known.items():
            if "::" in result.by:
                counts.setdefault(key.file, Counter())[result.by] += 1
        return counts

    def adopt(self, mutant: Mutant, result: Result) -> None:
        """Take what the tree itself says of one, where nothing newer is known."""
        self._known.setdefault((mutant.key, self.digest(mutant)), result)

    def put(self, mutant: Mutant, result: Result) -> None:
        """Keep what became of one."""
        digest = self.digest(mutant)
        self._known[mutant.key, digest] = result
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            print(json.dumps([mutant.key, digest, result]), file=file)

    def digest(self, mutant: Mutant) -> str:
        """Of the function around it, or of what the import runs."""
        file = mutant.key.file
        if file not in self._digests:
            tree = ast.parse((self._root / file).read_text())
            functions = dict(_functions(tree, ""))
            self._digests[file] = {"": _digest(_without_bodies(tree)), **functions}
        return self._digests[file][mutant.outer[0] if mutant.outer else ""]


def _functions(tree: ast.AST, names: str) -> Iterable[tuple[str, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{names}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{names}{node.name}", _digest(node)
        else:
            yield from _functions(node, names)


def _without_bodies(tree: ast.Module) -> ast.Module:
    """What the import runs; a tree is not used any more afterwards."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Pass()]
    return tree


def _digest(node: ast.AST) -> str:
    return hashlib.sha256(ast.dump(node).encode()).hexdigest()[:16]


HEADS = ("broken", "found", "equivalent", "left", "not tried")


def figures(
    mutants: Iterable[Mutant], results: Results, equivalents: Collection[Key]
) -> dict[str, Counter[str]]:
    """Count what became of mutants, by file.

    Args:
        mutants: which.
        results: what is known.
        equivalents: those that nobody can notice.
    """
    counts: dict[str, Counter[str]] = {}
    for mutant in mutants:
        count = counts.setdefault(mutant.key.file, Counter())
        result = results.get(mutant)
        if mutant.key in equivalents:
            count.update(("broken", "equivalent"))
        elif result is None:
            count["not tried"] += 1
        else:
            count.update(("broken", "found" if result.by else "left"))
    return counts


def table(counts: dict[str, Counter[str]]) -> list[str]:
    """Draw the figures, with their sum."""
    rows = rows_of(counts)
    width = max(len(row[0]) for row in rows)
    lines = ["".join((" " * width, *(f"{head:>12}" for head in HEADS)))]
    return lines + [
        "".join((f"{name:<{width}}", *(f"{number:>12,}" for number in numbers))) for name, *numbers in rows
    ]


def rows_of(counts: dict[str, Counter[str]]) -> list[tuple[Any, ...]]:
    """Give a row of figures for each file, and last their sum."""
    total = sum(counts.values(), Counter[str]())
    named = [*sorted(counts.items()), ("all", total)]
    return [(name, *(count[head] for head in HEADS)) for name, count in named]
