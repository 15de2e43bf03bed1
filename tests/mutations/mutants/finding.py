"""Where a file can be broken: walks its tree and asks `rules` about each place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.mutations.mutants import rules
from tests.mutations.mutants.mutant import Edit

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOGGERS = frozenset({"log", "logger", "warnings", "record", "progress"})
"""What takes words and figures for people. Figures are held by tests of the report; here it is about deeds."""
SILENT = frozenset({"print", "echo", "warn"})
FIGURES = frozenset({"counts", "details", "metrics"})


def find_edits(tree: ast.Module) -> Iterator[Edit]:
    """Find all changes that the rules make in a tree."""
    yield from _Walk(()).block(tree.body, None)


@dataclass(frozen=True)
class _Walk:
    """Where the walk is.

    Attributes:
        names: of the classes and functions around.
        outer: qualified name and first line of the outermost function around; without one the import runs the place.
        is_condition: the place decides an `if`, whose both outcomes are tried anyway.
        returns: what the function around says that it gives.
        until: for the defaults of a function, where it ends: whoever runs any of its lines has them; 0 elsewhere.
    """

    names: tuple[str, ...]
    outer: tuple[str, int] | None = None
    is_condition: bool = False
    returns: str = ""
    until: int = 0

    def block(self, body: list[ast.stmt], parent: ast.AST | None) -> Iterator[Edit]:
        """Statements that follow each other."""
        for index, statement in enumerate(body):
            if is_silent(statement):
                continue
            if self.outer:
                yield from self._statement(body, index, parent)
            yield from self.inside(statement)

    def _statement(self, body: list[ast.stmt], index: int, parent: ast.AST | None) -> Iterator[Edit]:
        statement = body[index]
        if rules.may_be_left_out(statement, len(body), parent, self.names[-1]):
            yield self._edit(statement, ast.Pass(), _putter(body, index))
        if index + 1 < len(body) and rules.may_be_swapped(statement, body[index + 1]):
            after = body[index + 1]
            if not is_silent(after):
                yield self._swap(body, index)

    def _swap(self, body: list[ast.stmt], index: int) -> Edit:
        first, second = body[index], body[index + 1]

        def apply() -> None:
            body[index], body[index + 1] = second, first

        new = f"first {_text(second)}"
        return self._made(first, second, (_text(first), new), apply)

    def inside(self, node: ast.AST) -> Iterator[Edit]:
        """What is below a node."""
        if is_words(node) or isinstance(
            node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.TypeAlias
        ):
            return
        if isinstance(node, ast.Call) and is_silent(ast.Expr(node)):
            return
        within = self._within(node)
        for name, value in ast.iter_fields(node):
            is_head = isinstance(node, FUNCTIONS) and name == "args"
            inner = replace(within, until=node.end_lineno or 0) if is_head else within
            if name in {"annotation", "returns", "decorator_list", "type_params", "bases", "keywords"} and (
                not isinstance(node, ast.Call)
            ):
                continue
            if name == "slice" or (
                isinstance(node, ast.Call) and name == "func" and isinstance(value, ast.Name)
            ):
                continue
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield from inner.block(value, node)
            elif isinstance(value, list):
                for index, child in enumerate(value):
                    if isinstance(child, ast.AST):
                        yield from inner.place(child, node, name, _putter(value, index))
            elif isinstance(value, ast.AST):
                yield from inner.place(value, node, name, _setter(node, name))

    def place(
        self, node: ast.AST, parent: ast.AST, name: str, put: Callable[[ast.AST], None]
    ) -> Iterator[Edit]:
        """One node below a statement."""
        walk = self._conditional(node, parent, name)
        if isinstance(node, ast.expr):
            has_call, in_class = walk.outer is not None, bool(walk.names)
            place = rules.Place(parent, name, walk.returns, walk.is_condition, has_call, in_class)
            for new in rules.instead_of(node, place):
                yield walk._edit(node, new, put)
        if isinstance(node, ast.Call):
            yield from walk._without_keywords(node)
        yield from walk.inside(node)

    def _without_keywords(self, call: ast.Call) -> Iterator[Edit]:
        if not self.outer:
            return
        for keyword in call.keywords:
            if not rules.keyword_may_go(call, keyword):
                continue
            rest = [other for other in call.keywords if other is not keyword]

            def apply(rest: list[ast.keyword] = rest) -> None:
                call.keywords = rest

            old = f"{_text(call.func)}(…, {_text(keyword)})"
            yield self._made(keyword.value, keyword.value, (old, f"without {keyword.arg}"), apply)

    def _within(self, node: ast.AST) -> _Walk:
        if isinstance(node, ast.ClassDef):
            return _Walk((*self.names, node.name), self.outer)
        if isinstance(node, FUNCTIONS):
            names = (*self.names, node.name)
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            returns = "" if node.returns is None else ast.unparse(node.returns)
            return _Walk(names, self.outer or (".".join(names), first), returns=returns)
        if isinstance(node, ast.Lambda):
            return replace(self, is_condition=False, returns="")
        return self

    def _conditional(self, node: ast.AST, parent: ast.AST, name: str) -> _Walk:
        is_test = name == "test" or (isinstance(parent, ast.comprehension) and name == "ifs")
        stays = self.is_condition and isinstance(parent, ast.BoolOp | ast.UnaryOp)
        is_answer = isinstance(parent, ast.Return) and self.returns == "bool"
        return replace(self, is_condition=is_test or stays or is_answer)

    def _edit(self, node: ast.expr | ast.stmt, new: ast.AST, put: Callable[[ast.AST], None]) -> Edit:
        return self._made(node, node, (_text(node), _text(new)), lambda: put(new))

    def _made(
        self,
        first: ast.expr | ast.stmt,
        last: ast.expr | ast.stmt,
        texts: tuple[str, str],
        apply: Callable[[], None],
    ) -> Edit:
        end = self.until or last.end_lineno or last.lineno
        if isinstance(last, ast.If | ast.For | ast.While | ast.With | ast.Try):
            end = last.lineno
        return Edit(".".join(self.names), self.outer, first.lineno, end, *texts, apply)


def _text(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node)).partition("\n")[0]


def _putter(values: list[ast.stmt] | list[object], index: int) -> Callable[[ast.AST], None]:
    def put(new: ast.AST) -> None:
        values[index] = new  # type: ignore[call-overload]

    return put


def _setter(node: ast.AST, name: str) -> Callable[[ast.AST], None]:
    return lambda new: setattr(node, name, new)


def is_words(node: ast.AST) -> bool:
    """Whether an expression is a piece of a sentence for people."""
    match node:
        case ast.JoinedStr(values=values):
            return any(is_words(value) for value in values)
        case ast.Constant(value=str(text)):
            return " " in text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return is_words(left) or is_words(right)
        case ast.IfExp(body=body, orelse=orelse):
            return is_words(body) or is_words(orelse)
    return False


def is_silent(statement: ast.AST) -> bool:
    """Whether a statement only says something, or nothing happens there when it is run."""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=value) | ast.AugAssign(target=ast.Name(), value=value):
            if is_words(value):
                return True
    if isinstance(statement, ast.If):
        only_says = all(is_silent(inner) for inner in (*statement.body, *statement.orelse))
        return only_says or ast.unparse(statement.test) == "TYPE_CHECKING"
    if isinstance(statement, ast.Assign | ast.AugAssign):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        return (
            isinstance(target, ast.Subscript)
            and isinstance(target.value, ast.Attribute)
            and (target.value.attr in FIGURES)
        )
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    if isinstance(value, ast.Constant):
        return True
    if not isinstance(value, ast.Call):
        return False
    match value.func:
        case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name)) if name in LOGGERS | FIGURES:
            return True
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
            return True
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in SILENT
    return False
