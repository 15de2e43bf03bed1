"""How a guard is broken: one node of one function becomes a constant, goes, or changes its operator.

    Put("If", 2, False)                    the condition of the second `if` is False
    Put("Return", 1, None)                 the first `return` gives None
    Put("Call", "is_open", True)           the one call of `is_open` becomes True
    Put("Call", 3, (), "keywords.tests")   an argument of the third call becomes ()
    Drop("Expr", "check")                  the one statement that calls `check` goes
    Drop("BoolOp", 1, "values.0")          the first operand of the first `and` or `or` goes
    Keep("Call", 2, "args.0")              the second call becomes its first argument
    Operator("Compare", 1, "LtE")          the first comparison is `<=`
    Negate("If", 1)                        the condition of the first `if` becomes its opposite
    Rename("Call", 1, "min")               the first call is one of `min`
    Swap("Assign", 2)                      the second assignment comes after the next statement
    Leave("Expr", 1, None)                 `return None` stands in the place of a statement
    Always(True)                           the function returns True
    Both(Swap(…), Put(…))                  two edits

Kinds are those of Python's module `ast`. They are counted from 1 in the order of the tree, inner functions included; a
name instead of a number is the name that the node has (what is called, what is assigned to, what is asked first, the
text of a constant) and must occur once. A part of a node is named by fields and places. A function is named with its
class (`Gate.check`); a class alone is its whole body, and "" the whole module.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

type Which = int | str

_CONDITIONS = ("If", "While", "IfExp", "Assert")
_VALUES = ("Return", "Assign", "AnnAssign", "AugAssign", "keyword", "NamedExpr")


class NotThereError(AssertionError):
    """The product has no such module, function or node any more."""


@dataclass(frozen=True)
class Edit:
    """What is done to a node; see the module."""

    kind: str  # of the node
    which: Which  # its number, or its name

    def apply(self, scope: ast.AST) -> None:
        raise NotImplementedError

    def _node(self, scope: ast.AST) -> ast.AST:
        found = [node for node in walk(scope) if type(node).__name__ == self.kind]
        if isinstance(self.which, int):
            if len(found) < self.which:
                raise NotThereError(
                    f"has {len(found)} nodes {self.kind}, and number {self.which} is asked for"
                )
            return found[self.which - 1]
        named = [node for node in found if name_of(node) == self.which]
        if len(named) != 1:
            raise NotThereError(f"has {len(named)} nodes {self.kind} with the name {self.which!r}, not one")
        return named[0]


@dataclass(frozen=True)
class Put(Edit):
    """A constant takes the place of a node, of its value or condition, or of a part of it."""

    value: object
    part: str = ""

    def apply(self, scope: ast.AST) -> None:
        node = self._node(scope)
        part = self.part or ("test" if self.kind in _CONDITIONS else "value" if self.kind in _VALUES else "")
        _replace(*_find(scope, node, part), [literal(self.value)])


@dataclass(frozen=True)
class Drop(Edit):
    """A statement, an operand, an argument or another member of a list goes."""

    part: str = ""

    def apply(self, scope: ast.AST) -> None:
        owner, field, index = _find(scope, self._node(scope), self.part)
        if index is None:
            raise NotThereError(f"has a {self.kind} that is no member of a list")
        members = getattr(owner, field)
        del members[index]
        if isinstance(owner, ast.Dict):
            del owner.values[index]
        if isinstance(owner, ast.Compare):
            del owner.ops[index]
        if isinstance(owner, ast.BoolOp) and len(members) == 1:
            _replace(*_find(scope, owner, ""), members)
        elif field == "body" and not members:
            members.append(ast.Pass())


@dataclass(frozen=True)
class Keep(Edit):
    part: str

    def apply(self, scope: ast.AST) -> None:
        node = self._node(scope)
        owner, field, index = _find(scope, node, self.part)
        kept = _get(owner, field, index)
        kept = kept.value if isinstance(kept, ast.keyword) else kept
        _replace(*_find(scope, node, ""), kept if isinstance(kept, list) else [kept])


@dataclass(frozen=True)
class Operator(Edit):
    name: str

    def apply(self, scope: ast.AST) -> None:
        node: Any = self._node(scope)
        operator = getattr(ast, self.name)()
        if isinstance(node, ast.Compare):
            node.ops[0] = operator
        else:
            node.op = operator


@dataclass(frozen=True)
class Negate(Edit):
    part: str = ""

    def apply(self, scope: ast.AST) -> None:
        node = self._node(scope)
        owner, field, index = _find(scope, node, self.part or ("test" if self.kind in _CONDITIONS else ""))
        _replace(owner, field, index, [ast.UnaryOp(ast.Not(), _get(owner, field, index))])


@dataclass(frozen=True)
class Rename(Edit):
    """A name, an attribute, or what a call calls, is another one."""

    name: str

    def apply(self, scope: ast.AST) -> None:
        node: Any = self._node(scope)
        named = node.func if isinstance(node, ast.Call) else node
        setattr(named, "attr" if isinstance(named, ast.Attribute) else "id", self.name)


@dataclass(frozen=True)
class Swap(Edit):
    """A statement goes behind the next one, or the next ones."""

    steps: int = 1

    def apply(self, scope: ast.AST) -> None:
        owner, field, index = _find(scope, self._node(scope), "")
        members = getattr(owner, field)
        if index is None or index + self.steps >= len(members):
            raise NotThereError(f"has no statement after the {self.kind} {self.which!r}")
        members.insert(index + self.steps, members.pop(index))


@dataclass(frozen=True)
class Leave(Edit):
    value: object = None

    def apply(self, scope: ast.AST) -> None:
        _replace(*_find(scope, self._node(scope), ""), [ast.Return(literal(self.value))])


class Always(Edit):
    value: object

    def __init__(self, value: object) -> None:
        super().__init__("FunctionDef", 0)
        object.__setattr__(self, "value", value)

    def __repr__(self) -> str:
        return f"Always({self.value!r})"

    def apply(self, scope: ast.AST) -> None:
        if not isinstance(scope, ast.FunctionDef):
            raise NotThereError("is no function")
        scope.body = [ast.Return(literal(self.value))]


@dataclass(frozen=True)
class Both:
    """Two edits, where one alone leaves code that cannot run."""

    first: Edit
    second: Edit

    def apply(self, scope: ast.AST) -> None:
        self.first.apply(scope)
        self.second.apply(scope)


def walk(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        yield from walk(child)


def name_of(node: ast.AST) -> str:
    """Give the name that a node goes by; "" for none."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.keyword(arg=name) if name:
            return name
        case ast.Constant(value=str() as name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner) | ast.UnaryOp(operand=inner):
            return name_of(inner)
        case ast.Expr(value=inner) | ast.Return(value=ast.AST() as inner) | ast.Raise(exc=ast.AST() as inner):
            return name_of(inner)
        case ast.Assign(targets=[inner, *_]) | ast.NamedExpr(target=inner) | ast.For(target=inner):
            return name_of(inner)
        case ast.AnnAssign(target=inner) | ast.AugAssign(target=inner) | ast.comprehension(target=inner):
            return name_of(inner)
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.If(test=inner) | ast.IfExp(test=inner) | ast.While(test=inner) | ast.Compare(left=inner):
            return name_of(inner)
    return ""


def literal(value: object) -> ast.expr:
    if isinstance(value, tuple | list):
        members = [literal(each) for each in value]
        return ast.Tuple(members, ast.Load()) if isinstance(value, tuple) else ast.List(members, ast.Load())
    if isinstance(value, set):
        return (
            ast.Set([literal(each) for each in value])
            if value
            else ast.Call(ast.Name("set", ast.Load()), [], [])
        )
    if isinstance(value, dict):
        return ast.Dict([literal(each) for each in value], [literal(each) for each in value.values()])
    return ast.Constant(cast("Any", value))


def find_scope(tree: ast.Module, name: str) -> ast.AST:
    scope: ast.AST = tree
    for part in name.split(".") if name else ():
        named = (ast.FunctionDef, ast.ClassDef)
        found = [node for node in walk(scope) if isinstance(node, named) and node.name == part]
        if not found:
            raise NotThereError(f"has no {name}")
        scope = found[-1]  # of overloads the last
    return scope


def _find(scope: ast.AST, node: ast.AST, part: str) -> tuple[ast.AST, str, int | None]:
    for step in part.split(".") if part else ():
        inner: Any = getattr(node, step, None)
        if isinstance(node, _Members):
            inner = node.get(step)
        elif isinstance(inner, list):
            inner = _Members(node, step, inner)
        if inner is None:
            raise NotThereError(f"has a node without {part}")
        node = inner
    if isinstance(node, _Members):
        return node.owner, node.field, None
    for owner in (scope, *walk(scope)):
        for field, value in ast.iter_fields(owner):
            if value is node:
                return owner, field, None
            if isinstance(value, list) and any(each is node for each in value):
                return owner, field, next(at for at, each in enumerate(value) if each is node)
    raise NotThereError("has lost the node")


class _Members(ast.AST):
    def __init__(self, owner: ast.AST, field: str, nodes: list[ast.AST]) -> None:
        self.owner, self.field, self.nodes = owner, field, nodes

    def get(self, name: str) -> ast.AST | None:
        if name.isdigit():
            return self.nodes[int(name)] if int(name) < len(self.nodes) else None
        named = [each for each in self.nodes if name_of(each) == name]
        return named[0] if len(named) == 1 else None


def _get(owner: ast.AST, field: str, index: int | None) -> Any:
    value = getattr(owner, field)
    return value if index is None else value[index]


def _replace(owner: ast.AST, field: str, index: int | None, nodes: list[Any]) -> None:
    if index is None:
        setattr(owner, field, nodes[0])
        return
    members = getattr(owner, field)
    old = members[index]
    if isinstance(old, ast.keyword) and not isinstance(nodes[0], ast.keyword):
        nodes = [ast.keyword(old.arg, nodes[0])]
    if isinstance(old, ast.stmt):
        nodes = [each if isinstance(each, ast.stmt) else ast.Expr(each) for each in nodes]
    members[index : index + 1] = nodes
