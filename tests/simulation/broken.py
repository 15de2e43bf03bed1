"""A product that is broken on purpose: the text of some modules is replaced while they are imported.

Nothing is changed on disk, so many broken products can be hunted from one tree. `python -m tests.simulation.broken
"NAME" -- ARGS` does what `./run simulate ARGS` does, on the product with a known bug and with that bug's focus.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from tests.mutations.breakages.breakage import Breakage
from tests.simulation.known_bugs import BUGS

ROOT = Path(__file__).resolve().parents[2]


class BreakingLoader(SourceFileLoader):
    """Loads a module with some of its text replaced."""

    changes: Sequence[Breakage] = ()

    def get_code(self, fullname: str) -> CodeType:
        text = self.get_source(fullname) or ""
        for change in self.changes:
            assert text.count(change.old) == 1, f"{change.name}: {change.old!r} is not in {change.file} once"
            text = text.replace(change.old, change.new)
        return compile(text, self.path, "exec", dont_inherit=True)


class BreakingFinder(MetaPathFinder):
    """Finds the modules that are to be broken."""

    def __init__(self, changes: Sequence[Breakage]) -> None:
        self._changes = changes

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("dredge."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return spec
        changes = [change for change in self._changes if str(ROOT / change.file) == spec.origin]
        if changes:
            loader = BreakingLoader(fullname, spec.origin)
            loader.changes = changes
            spec.loader = loader
        return spec


def break_product(changes: Sequence[Breakage]) -> None:
    """Break the product in this process, which must not have imported it yet."""
    files = {change.file.removesuffix(".py").replace("/", ".") for change in changes}
    too_late = sorted(files & set(sys.modules))
    assert not too_late, f"imported already: {too_late}"
    sys.meta_path.insert(0, BreakingFinder(changes))


def main(arguments: Sequence[str]) -> int:
    """Break what is named before `--`, then do what `./run simulate` does with the rest."""
    at = list(arguments).index("--")
    named = [bug for bug in BUGS if bug.name in arguments[:at]]
    assert named, f"no known bug is called {arguments[:at]}"
    break_product([change for bug in named for change in (*bug.changes, *bug.beside)])
    from tests.simulation.__main__ import main as simulate

    focus = ["--focus", named[0].focus.to_text()] if named[0].focus else []
    return simulate([*focus, *arguments[at + 1 :]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
