"""What the edits do to a function."""

import ast

import pytest

from tests.mutations.edits import (
    Always,
    Drop,
    Edit,
    Keep,
    Leave,
    Negate,
    NotThereError,
    Operator,
    Put,
    Rename,
    Swap,
    find_scope,
)

SOURCE = """
class Gate:
    def check(self, rows, limit=5):
        first = ask(rows)
        second = look(first, deep=True)
        if first and second < limit:
            raise Stop(first)
        return [row for row in rows if row.old]
"""
BODY = {
    "first": "first = ask(rows)",
    "second": "second = look(first, deep=True)",
    "if": "if first and second < limit:\n    raise Stop(first)",
    "return": "return [row for row in rows if row.old]",
}


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        (Put("If", 1, False), {"if": "if False:\n    raise Stop(first)"}),
        (Put("Assign", "second", ()), {"second": "second = ()"}),
        (Put("Return", 1, None), {"return": "return None"}),
        (Put("Call", "ask", {}, "args.0"), {"first": "first = ask({})"}),
        (Put("Call", "look", False, "keywords.deep"), {"second": "second = look(first, deep=False)"}),
        (Drop("Raise", "Stop"), {"if": "if first and second < limit:\n    pass"}),
        (Drop("keyword", "deep"), {"second": "second = look(first)"}),
        (Drop("BoolOp", 1, "values.0"), {"if": "if second < limit:\n    raise Stop(first)"}),
        (Drop("comprehension", 1, "ifs.0"), {"return": "return [row for row in rows]"}),
        (Keep("Call", "look", "args.0"), {"second": "second = first"}),
        (Operator("Compare", 1, "GtE"), {"if": "if first and second >= limit:\n    raise Stop(first)"}),
        (Negate("If", 1), {"if": "if not (first and second < limit):\n    raise Stop(first)"}),
        (Rename("Call", "ask", "answer"), {"first": "first = answer(rows)"}),
        (Leave("If", 1), {"if": "return None"}),
    ],
    ids=repr,
)
def test_an_edit_changes_one_node(edit: Edit, changed: dict[str, str]) -> None:
    tree = ast.parse(SOURCE)
    edit.apply(find_scope(tree, "Gate.check"))
    assert _body(tree) == [{**BODY, **changed}[name] for name in BODY]


def test_a_statement_goes_behind_others_and_a_function_becomes_a_constant() -> None:
    tree = ast.parse(SOURCE)
    Swap("Assign", "first", 2).apply(find_scope(tree, "Gate.check"))
    assert _body(tree) == [BODY["second"], BODY["if"], BODY["first"], BODY["return"]]
    Always(True).apply(find_scope(tree, "Gate.check"))
    assert _body(tree) == ["return True"]


@pytest.mark.parametrize(
    "edit",
    [
        Put("While", 1, False),
        Put("Call", 9, None),
        Put("Name", "first", None),
        Drop("Call", "look", "keywords.wide"),
        Swap("Return", 1),
    ],
    ids=repr,
)
def test_a_node_that_is_not_there_or_not_alone_is_refused(edit: Edit) -> None:
    with pytest.raises(NotThereError):
        edit.apply(find_scope(ast.parse(SOURCE), "Gate.check"))


def _body(tree: ast.Module) -> list[str]:
    function = find_scope(tree, "Gate.check")
    assert isinstance(function, ast.FunctionDef)
    return [ast.unparse(each) for each in ast.fix_missing_locations(function).body]
