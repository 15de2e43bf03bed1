"""Counts the tests' replacements of parts of a module or a class: `python -m tests.support.patches`.

Such a test depends on the code's structure. Better is an argument, or a field of the configuration. `MOST` is the
allowed number and only decreases; `./run check` fails above it.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MOST = 199


def patches(tree: ast.Module) -> Iterator[int]:
    """Yield the line of each replaced attribute of an imported object."""
    imported = set(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _patches(node, imported):
            yield node.lineno
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = (part for target in targets for part in ast.walk(target))
            if any(
                isinstance(part.ctx, ast.Store) and _root(part) in imported
                for part in parts
                if isinstance(part, ast.Attribute)
            ):
                yield node.lineno


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0]


def _patches(call: ast.Call, imported: set[str]) -> bool:
    name = ast.unparse(call.func)
    if name in ("setattr", "delattr"):
        return bool(call.args) and _root(call.args[0]) in imported
    last = name.removeprefix("mock.")
    return name.endswith((".setattr", ".delattr")) or last in ("patch", "patch.object", "patch.multiple")


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def main() -> None:
    found = [
        f"{path.relative_to(TESTS.parent)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for line in patches(ast.parse(path.read_text()))
    ]
    if "--list" in sys.argv:
        print("\n".join(found), f"{len(found)} of at most {MOST}", sep="\n")
    if len(found) > MOST:
        sys.exit(
            f"{len(found)} places of the tests replace a part of a module or a class; at most {MOST} may: make what "
            "a new test varies an argument (python -m tests.support.patches --list shows the places)"
        )


if __name__ == "__main__":
    main()
