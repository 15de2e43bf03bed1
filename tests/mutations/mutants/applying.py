"""Breaks what is imported already: functions get the code, and the defaults of arguments, of the broken file.

A mutant then costs its tests only, not a new interpreter. What else the import computes (constants, tables, fields of
classes) is not reached so: those files are imported again, with everything that took something from them.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

type Place = tuple[str, str, int]
"""File, qualified name and first line of a function."""


class Functions:
    """The functions that live in this process.

    Args:
        root: of the tree; only what lies there counts.
    """

    def __init__(self, root: Path) -> None:
        self._root = f"{root}/"
        self._real = functools.cache(os.path.realpath)
        self._functions: dict[Place, list[types.FunctionType]] = defaultdict(list)
        for thing in gc.get_objects():
            if type(thing) is types.FunctionType and thing.__code__.co_filename.startswith(self._root):
                self._functions[self._place(thing.__code__)].append(thing)

    def _place(self, code: types.CodeType) -> Place:
        """Where the code is from, whichever link to its folder it was imported by."""
        return self._real(code.co_filename), code.co_qualname, code.co_firstlineno

    def codes(self, folders: Sequence[str]) -> Iterator[tuple[types.CodeType, types.CodeType]]:
        """All code of the functions of some folders: each with the outermost that it is inside of, often itself."""
        wanted = tuple(self._root + folder for folder in folders)
        # Those that a decorator left are functions of their own, too; the last word has what they are inside of.
        for place, functions in sorted(
            self._functions.items(), key=lambda item: "<locals>" not in item[0][1]
        ):
            if place[0].startswith(wanted):
                for function in functions:
                    yield from ((code, function.__code__) for code in _with_inner(function.__code__))

    def replace(self, file: str, tree: ast.Module) -> int:
        """Give functions of a file the code and the defaults of another version of it.

        Args:
            file: from the root.
            tree: the other version.

        Returns:
            How many functions have other ones now.
        """
        replaced = 0
        for code in _with_inner(compile(tree, self._root + file, "exec", dont_inherit=True)):
            for function in self._functions.get(self._place(code), ()):
                if function.__code__ != code:
                    function.__code__ = code
                    replaced += 1
        whole = dict(_heads(ast.parse(Path(self._root, file).read_text())))
        for head, arguments in _heads(tree):
            for function in self._functions.get((self._real(self._root + file), *head), ()):
                replaced += _replace_defaults(function, whole[head], arguments)
        return replaced


def _heads(
    node: ast.Module | ast.ClassDef, around: str = ""
) -> Iterator[tuple[tuple[str, int], ast.arguments]]:
    """Arguments of a file's functions, by qualified name and first line; those inside of others are these' code."""
    for inner in node.body:
        if isinstance(inner, ast.ClassDef):
            yield from _heads(inner, f"{around}{inner.name}.")
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([inner.lineno, *(decorator.lineno for decorator in inner.decorator_list)])
            yield (around + inner.name, first), inner.args


def _replace_defaults(function: types.FunctionType, old: ast.arguments, new: ast.arguments) -> bool:
    """Compute anew the defaults that are written in another way; the others stay what they are, as marks must."""
    texts = [(ast.unparse(before), ast.unparse(after)) for before, after in _defaults(old, new)]
    if all(before == after for before, after in texts):
        return False
    positional = function.__defaults__ or ()
    named = [arg.arg for arg, default in zip(new.kwonlyargs, new.kw_defaults, strict=True) if default]
    by_name = function.__kwdefaults__ or {}
    values = [
        value if before == after else eval(after, function.__globals__)
        for value, (before, after) in zip(
            [*positional, *(by_name[name] for name in named)], texts, strict=True
        )
    ]
    function.__defaults__ = tuple(values[: len(positional)])
    function.__kwdefaults__ = dict(zip(named, values[len(positional) :], strict=True))
    return True


def _defaults(old: ast.arguments, new: ast.arguments) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each default as it was, and as it is."""
    yield from zip(old.defaults, new.defaults, strict=True)
    for before, after in zip(old.kw_defaults, new.kw_defaults, strict=True):
        if before is not None and after is not None:
            yield before, after


def _with_inner(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _with_inner(constant)


class _BrokenLoader(importlib.machinery.SourceFileLoader):
    """Loads a file's other version."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, fullname: str) -> types.CodeType:
        return compile(self._tree, self.path, "exec", dont_inherit=True)


class _BrokenFinder(importlib.abc.MetaPathFinder):
    """Finds it in place of the file."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self._path = os.path.realpath(path)
        self._tree = tree

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or os.path.realpath(spec.origin or "") != self._path:
            return None
        spec.loader = _BrokenLoader(fullname, str(spec.origin), self._tree)
        return spec


def forget(root: Path, file: str, tree: ast.Module) -> None:
    """Have everything below a root imported again, with another version of a file.

    Args:
        root: of the tree.
        file: from there.
        tree: its other version.
    """
    for name in [name for name, module in sys.modules.items() if _path(module).startswith(f"{root}/")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _BrokenFinder(str(root / file), tree))


def _path(module: types.ModuleType) -> str:
    """Where a module, or a package without a file of its own, is."""
    return str(getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), ""))
