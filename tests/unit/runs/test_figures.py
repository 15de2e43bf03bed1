"""Figures of several tasks add up, and of their examples a few are kept."""

from __future__ import annotations

from dredge.runs.figures import EXAMPLES_MAX, Figures, add_up


def of(objects: int, size_bytes: int, *examples: str) -> Figures:
    return Figures(objects=objects, size_bytes=size_bytes, examples=examples)


def test_figures_add_up_by_kind() -> None:
    one = {"a": of(1, 10, "x"), "b": of(2, 20)}
    two = {"a": of(4, 40, "y"), "c": of(8, 80)}
    assert add_up([one, two, one]) == {
        "a": of(6, 60, "x", "y", "x"),
        "b": of(4, 40),
        "c": of(8, 80),
    }
    assert add_up([]) == {}


def test_of_many_examples_the_first_are_kept() -> None:
    names = tuple(f"{number}" for number in range(EXAMPLES_MAX + 5))
    assert (of(1, 1, *names[:4]) + of(1, 1, *names[4:])).examples == names[:EXAMPLES_MAX]
