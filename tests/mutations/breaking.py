"""A product with broken guards: in this process, before or after the product was imported, or in a copy of the tree."""

import ast
import functools
import gc
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from inspect import CO_GENERATOR, CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import NotThereError, find_scope

ROOT = Path(__file__).resolve().parents[2]
_LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "*.pyc", "spark-warehouse", "metastore_db", "artifacts"
)


def file_of(module: str, root: Path = ROOT) -> Path:
    path = root / f"{module.replace('.', '/')}.py"
    path = path if path.exists() else path.with_suffix("") / "__init__.py"
    if not path.exists():
        raise NotThereError("is no module")
    return path


def broken_tree_of(module: str, breakages: Sequence[Breakage]) -> ast.Module:
    """Give a module's syntax tree with guards broken, those of other modules passed over."""
    ours = [each for each in breakages if each.module == module]
    name, place = ours[0].name if ours else "", module
    try:
        tree = _parse(file_of(module))
        for each in ours:
            name, place = each.name, f"{module}:{each.function}" if each.function else module
            each.edit.apply(find_scope(tree, each.function))
    except NotThereError as error:
        raise NotThereError(
            f"the breakage {name!r} does not fit the product any more: {place} {error}; name the node"
            " that is the guard now"
        ) from error
    return ast.fix_missing_locations(tree)


def _parse(path: Path) -> ast.Module:
    return ast.parse(_text(path), path)


@functools.cache
def _text(path: Path) -> str:
    return path.read_text()


def break_in_place(breakages: Sequence[Breakage]) -> bool:
    """Break the product in this process, which has imported it: a quick way where nothing but functions change."""
    found: dict[str, tuple[CodeType, CodeType]] = {}
    for module in dict.fromkeys(each.module for each in breakages):
        path = file_of(module)
        before = compile(_parse(path), path, "exec", dont_inherit=True)
        after = compile(broken_tree_of(module, breakages), path, "exec", dont_inherit=True)
        if module not in sys.modules or not _differing(before, after, module, found):
            return False
    functions: dict[str, list[FunctionType]] = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            functions.setdefault(f"{each.__module__}:{each.__code__.co_qualname}", []).append(each)
    for key, (_, new) in found.items():
        named = functions.get(key, [])
        if not named or any(each.__code__.co_freevars != new.co_freevars for each in named):
            return False
    for key, (_, new) in found.items():
        for each in functions[key]:
            each.__code__ = new
    return True


def _differing(
    before: CodeType, after: CodeType, module: str, found: dict[str, tuple[CodeType, CodeType]]
) -> bool:
    olds, news = ([each for each in code.co_consts if isinstance(each, CodeType)] for code in (before, after))
    if _own(before) != _own(after) or len(olds) != len(news):
        return False
    for old, new in zip(olds, news, strict=True):
        is_class = not old.co_flags & CO_OPTIMIZED or old.co_name.startswith("<generic parameters of")
        if is_class and not _differing(old, new, module, found):
            return False
        if not is_class and _whole(old) != _whole(new):
            if old.co_name.startswith("<") or old.co_flags & CO_GENERATOR != new.co_flags & CO_GENERATOR:
                return False
            found[f"{module}:{old.co_qualname}"] = old, new
    return True


def _own(code: CodeType) -> tuple[object, ...]:
    plain = [repr(each) for each in code.co_consts if not isinstance(each, CodeType) and each is not None]
    plain = [each for each in plain if not each.isdigit()]  # line numbers of classes
    return code.co_code, code.co_names, code.co_varnames, plain


def _whole(code: CodeType) -> tuple[object, ...]:
    consts = [_whole(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, consts


def break_product(breakages: Sequence[Breakage]) -> None:
    """Break the product in this process, which must not have imported it yet."""
    too_late = sorted({each.module for each in breakages} & set(sys.modules))
    assert not too_late, f"imported already: {too_late}"
    sys.meta_path.insert(0, _Finder(breakages))


class _Loader(SourceFileLoader):
    breakages: Sequence[Breakage] = ()

    def get_code(self, fullname: str) -> CodeType:
        return compile(broken_tree_of(fullname, self.breakages), self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, breakages: Sequence[Breakage]) -> None:
        self._breakages = breakages

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not any(each.module == fullname for each in self._breakages):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = loader = _Loader(fullname, spec.origin)
            loader.breakages = self._breakages
        return spec


class BrokenTree:
    """A copy of the tree, for what processes of their own import."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        shutil.copytree(ROOT, self.root, symlinks=True, ignore=_LEFT_OUT)  # links: one file under one name

    @contextmanager
    def broken(self, breakages: Sequence[Breakage]) -> Iterator[None]:
        paths = {each.module: file_of(each.module, self.root) for each in breakages}
        try:
            for module, path in paths.items():
                _write(path, ast.unparse(broken_tree_of(module, breakages)))
            yield
        finally:
            for module, path in paths.items():
                _write(path, _text(file_of(module)))


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()  # its time alone may not tell that it is old
