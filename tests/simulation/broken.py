"""A product that is broken on purpose: the text of some modules is replaced while they are imported.

Nothing is changed on disk, so many broken products can be hunted from one tree. `python -m tests.simulation.broken
"NAME" -- ARGS` does what `./run simulate ARGS` does, on the product with a known bug and with that bug's focus.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from inspect import CO_GENERATOR, CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

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
        if not fullname.startswith(("dredge.", "lakefs_embedded.")):
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


def break_in_place(changes: Sequence[Breakage]) -> bool:
    """Break the product in this process, which has imported it: a quick way where nothing but functions change.

    Returns:
        Whether that was so; otherwise nothing was changed.
    """
    found: dict[str, tuple[CodeType, CodeType]] = {}
    for file in dict.fromkeys(change.file for change in changes):
        path = ROOT / file
        text = broken = path.read_text()
        for change in changes:
            if change.file == file:
                assert broken.count(change.old) == 1, (
                    f"{change.name}: {change.old!r} is not in {change.file} once"
                )
                broken = broken.replace(change.old, change.new)
        before, after = (compile(each, path, "exec", dont_inherit=True) for each in (text, broken))
        name = file.removesuffix(".py").replace("/", ".")
        if name not in sys.modules or not _differing(before, after, name, found):
            return False
    functions = [each for each in gc.get_objects() if isinstance(each, FunctionType)]
    for key, (_, new) in found.items():
        named = [each for each in functions if f"{each.__module__}:{each.__code__.co_qualname}" == key]
        if not named or any(each.__code__.co_freevars != new.co_freevars for each in named):
            return False
    for each in functions:
        key = f"{each.__module__}:{each.__code__.co_qualname}"
        if key in found:
            each.__code__ = found[key][1]
    return True


def _differing(
    before: CodeType, after: CodeType, module: str, found: dict[str, tuple[CodeType, CodeType]]
) -> bool:
    """Find the functions of a module or class that differ; says whether nothing else does."""
    olds, news = ([each for each in code.co_consts if isinstance(each, CodeType)] for code in (before, after))
    if _own(before) != _own(after) or len(olds) != len(news):
        return False
    for old, new in zip(olds, news, strict=True):
        is_class = not old.co_flags & CO_OPTIMIZED
        if is_class and not _differing(old, new, module, found):
            return False
        if not is_class and _text(old) != _text(new):
            if old.co_name.startswith("<") or old.co_flags & CO_GENERATOR != new.co_flags & CO_GENERATOR:
                return False
            found[f"{module}:{old.co_qualname}"] = old, new
    return True


def _own(code: CodeType) -> tuple[object, ...]:
    """What a body does by itself."""
    plain = [repr(each) for each in code.co_consts if not isinstance(each, CodeType) and each is not None]
    plain = [each for each in plain if not each.isdigit()]  # line numbers of classes
    return code.co_code, code.co_names, code.co_varnames, plain


def _text(code: CodeType) -> tuple[object, ...]:
    """What a function does, with all that is in it."""
    consts = [_text(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, consts


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
