"""The rules: what a mutant puts in the place of a piece of code.

guards and conditions   always, never; one side of an `and` or `or` left out
comparisons             the bound itself to the other side; equal and in the other way round
sets, sums, masks       one side left out; not inverted
min and max, any, all   the other one, as pyarrow's and numpy's
statements              left out; two that do not need each other the other way round
arguments               one by keyword left out
constants               times and bounds half and twice as large; yes and no; a line of a table left out
answers                 yes, no
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

ORDERED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
PAIRS = (
    ("min", "max"),
    ("any", "all"),
    ("minimum", "maximum"),
    ("and_", "or_"),
    ("and_kleene", "or_kleene"),
    ("logical_and", "logical_or"),
    ("less", "less_equal"),
    ("greater", "greater_equal"),
    ("equal", "not_equal"),
    ("is_null", "is_valid"),
    ("union1d", "intersect1d"),
    ("union", "intersection"),
)
OTHER_CALL = {old: new for pair in PAIRS for old, new in (pair, pair[::-1])}
FIRST_ARGUMENT = frozenset({"invert", "setdiff1d", "logical_not"})
RECEIVER = frozenset({"difference", "union", "intersection"})
BOUNDS = re.compile(
    "AGE|HOUR|DAY|SECOND|MINUTE|MARGIN|LIMIT|_MAX|_MIN|MAX_|MIN_|ROUNDS|TTL|SILENCE|TRIES|SHARE|EVERY|OLDEST"
)
SHOWN = re.compile("EXAMPLES|SHOWN|NAMED|_IN_FLIGHT")
"""How much is shown to people, or done at once: no bound of what may happen."""
BOUND_ARGUMENTS = frozenset({"default", "minimum", "maximum", "above"})
KEPT_KEYWORDS = frozenset(
    {"strict", "key", "exc_info", "default", "name", "daemon", "flush", "indent", "stacklevel", "sort_keys"}
)
PURE = frozenset(
    {
        *(
            "len",
            "sorted",
            "set",
            "list",
            "dict",
            "tuple",
            "frozenset",
            "str",
            "int",
            "float",
            "bool",
            "min",
            "max",
        ),
        *(
            "sum",
            "isinstance",
            "timedelta",
            "defaultdict",
            "Counter",
            "join",
            "format",
            "zip",
            "range",
            "enumerate",
        ),
        *("iter", "next", "array", "items", "keys", "values"),
    }
)
LIBRARIES = frozenset({"pc", "pa", "np", "json", "re", "ast", "dataclasses", "math"})
STEADY = frozenset(
    {
        "read_part",
        "read_parts",
        "take",
        "filter",
        "slice",
        "combine_chunks",
        "to_numpy",
        "fill_null",
        "fromisoformat",
    }
)
"""Reads of what is written once: their order says nothing."""
COMMUTATIVE = (ast.BitOr, ast.BitAnd, ast.Add)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an expression stands.

    Attributes:
        parent: what it is part of.
        name: of the field there.
        returns: what the function around says it gives.
        is_condition: both outcomes of the expression around are tried anyway.
        in_function: a call runs it, not the import.
        in_class: it is inside of a class at least.
    """

    parent: ast.AST
    name: str
    returns: str
    is_condition: bool
    in_function: bool
    in_class: bool


def instead_of(node: ast.expr, place: Place) -> Iterator[ast.expr]:
    """Give what may stand in an expression's place."""
    if _is_about_showing(node):
        return
    if not place.in_function:
        yield from _of_import(node, place)
    elif isinstance(node, ast.Constant):
        yield from _constants(node, place.parent)
    else:
        yield from _decided(place)
        yield from _operators(node, place.is_condition)
        if isinstance(node, ast.Call):
            yield from _calls(node)


def _is_about_showing(node: ast.expr) -> bool:
    """Whether it only decides how many examples people are shown."""
    names = [name.id for name in ast.walk(node) if isinstance(name, ast.Name)]
    return isinstance(node, ast.Compare) and any(SHOWN.search(name.upper()) for name in names)


def _decided(place: Place) -> Iterator[ast.expr]:
    """Both outcomes of a condition or an answer."""
    is_filter = isinstance(place.parent, ast.comprehension) and place.name == "ifs"
    is_answer = isinstance(place.parent, ast.Return)
    if isinstance(place.parent, ast.While) and place.name == "test":
        yield ast.Constant(False)
    elif place.name == "test" or is_filter or (is_answer and place.returns == "bool"):
        yield ast.Constant(True)
        yield ast.Constant(False)
    elif is_answer and place.returns.endswith("| None"):
        yield ast.Constant(None)


def _operators(node: ast.expr, condition: bool) -> Iterator[ast.expr]:
    match node:
        case ast.BoolOp(op=op, values=values):
            for index in range(len(values)):
                rest = values[:index] + values[index + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            if type(op) in ORDERED:
                yield ast.Compare(left, [ORDERED[type(op)]()], [right])
            elif not condition:
                yield ast.Compare(left, [OPPOSITE[type(op)]()], [right])
        case ast.Compare(left=left, ops=ops, comparators=right):
            for index, op in enumerate(ops):
                other = ORDERED.get(type(op)) or OPPOSITE[type(op)]
                yield ast.Compare(left, [*ops[:index], other(), *ops[index + 1 :]], right)
        case ast.UnaryOp(op=ast.Not(), operand=operand) if not condition:
            yield operand
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right) if not _is_text(left) and not _is_text(right):
            yield left
            if isinstance(op, COMMUTATIVE):
                yield right


def _calls(node: ast.Call) -> Iterator[ast.expr]:
    match node.func:
        case ast.Name(id=called) if called in OTHER_CALL:
            yield ast.Call(ast.Name(OTHER_CALL[called], ast.Load()), node.args, node.keywords)
        case ast.Attribute(value=receiver, attr=called):
            if called in OTHER_CALL:
                yield ast.Call(
                    ast.Attribute(receiver, OTHER_CALL[called], ast.Load()), node.args, node.keywords
                )
            if called in FIRST_ARGUMENT and node.args:
                yield node.args[0]
            if called in RECEIVER:
                yield receiver


def _constants(node: ast.Constant, parent: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node.value, bool):
        is_default = isinstance(parent, ast.arguments)
        if not is_default and not (isinstance(parent, ast.keyword) and parent.arg in KEPT_KEYWORDS):
            yield ast.Constant(not node.value)
    elif isinstance(node.value, int | float):
        if isinstance(parent, ast.Compare):
            yield ast.Constant(node.value + 1)
        elif _is_time(parent):
            yield from _halved_and_doubled(node.value)


def _of_import(node: ast.expr, place: Place) -> Iterator[ast.expr]:
    """Constants and tables of a module, defaults of a class."""
    parent = place.parent
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            is_given = isinstance(parent, ast.keyword) and parent.arg == "default"
            if is_given or (isinstance(parent, ast.AnnAssign) and place.in_class):
                yield ast.Constant(not node.value)
        elif isinstance(node.value, int | float) and (_is_bound(parent) or _is_time(parent)):
            yield from _halved_and_doubled(node.value)
    elif isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Add | ast.Sub) and not _is_text(node):
            yield node.left
    elif _is_table(parent) and place.name == "value" and not place.in_class:
        yield from _shorter(node)


def _is_table(parent: ast.AST) -> bool:
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return not name.startswith("__")
    return False


def _shorter(node: ast.expr) -> Iterator[ast.expr]:
    """A table without one of its lines."""
    if isinstance(node, ast.List | ast.Tuple) and 1 < len(node.elts) < 40:
        for index in range(len(node.elts)):
            yield type(node)(node.elts[:index] + node.elts[index + 1 :], ast.Load())


def _is_bound(parent: ast.AST) -> bool:
    match parent:
        case ast.keyword(arg=name):
            return name in BOUND_ARGUMENTS
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return bool(BOUNDS.search(name.upper())) and not SHOWN.search(name.upper())
        case ast.BinOp(op=ast.Mult()):
            return True
    return False


def _is_time(parent: ast.AST) -> bool:
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Name) and parent.func.id == "timedelta"
    return isinstance(parent, ast.keyword) and parent.arg in {"hours", "days", "minutes", "seconds"}


def _halved_and_doubled(value: float) -> Iterator[ast.expr]:
    if value:
        yield ast.Constant(value * 2)
        yield ast.Constant(value // 2 if isinstance(value, int) else value / 2)
    else:
        yield ast.Constant(value + 1)


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def keyword_may_go(call: ast.Call, keyword: ast.keyword) -> bool:
    """Whether an argument is left out: one that is no plain yes or no, which is turned round instead."""
    if keyword.arg is None or keyword.arg in KEPT_KEYWORDS:
        return False
    if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, bool):
        return False
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return called not in {"timedelta", "field", "dataclass"} and not _is_class(called)


def _is_class(name: str) -> bool:
    """A class has few arguments that may be left out, and those have a default that some other test knows."""
    return name.lstrip("_")[:1].isupper()


def may_be_left_out(statement: ast.stmt, in_block: int, parent: ast.AST | None, function: str) -> bool:
    """Whether a statement may be left out such that what follows still has its names.

    Args:
        statement: which.
        in_block: statements in its block.
        parent: whose block.
        function: name of the function around.
    """
    match statement:
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom() | ast.Await()):
            return True
        case ast.AugAssign() | ast.Delete():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return function not in {"__init__", "__post_init__"}
        case ast.Raise() | ast.Continue() | ast.Break():
            return in_block > 1 or not isinstance(parent, ast.If)
        case ast.Return():
            return in_block > 1 and not isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef)
    return False


def may_be_swapped(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether two statements that follow each other do something, and neither needs a name of the other."""
    if not (_acts(first) and _acts(second)):
        return False
    return not (_bound(first) & (_used(second) | _bound(second)) or _bound(second) & _used(first))


def _acts(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr | ast.Assign):
        return False
    value = statement.value
    if not isinstance(value, ast.Call):
        return False
    called = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    receiver = getattr(value.func.value, "id", "") if isinstance(value.func, ast.Attribute) else ""
    if isinstance(statement, ast.Assign):
        return called not in PURE | STEADY and receiver not in LIBRARIES and not _is_class(called)
    return called not in {"append", "add", "extend", "update"}


def _used(node: ast.AST) -> set[str]:
    return {
        name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)
    }


def _bound(node: ast.AST) -> set[str]:
    return {
        name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
