"""A limit is the most that may go; the worst of all findings counts."""

import pytest

from dredge.runs.limits import Finding, Limits, Verdict, worst


def verdicts(limits: Limits, objects: int = 3, size_bytes: int = 100, of_objects: int = 12) -> list[str]:
    return [finding.verdict for finding in limits.check(objects, size_bytes, of_objects)]


@pytest.mark.parametrize(
    ("exact", "less", "place"),
    [
        (Limits(objects=3), Limits(objects=2), 0),
        (Limits(size_bytes=100), Limits(size_bytes=99), 1),
        (Limits(percent=25.0), Limits(percent=24.999), 2),
    ],
)
def test_each_limit_counts_its_own_figure_up_to_itself(exact: Limits, less: Limits, place: int) -> None:
    assert verdicts(exact) == ["passed"] * 3
    expected = ["passed"] * 3
    expected[place] = "awaiting_approval"
    assert verdicts(less) == expected


def test_nothing_is_within_every_limit_and_without_one_everything_is() -> None:
    assert verdicts(Limits(0, 0, 0.0), 0, 0, 0) == ["passed"] * 3
    assert verdicts(Limits(), 10**9, 10**15, 10**9) == ["passed"] * 3
    assert verdicts(Limits(0, 0, 0.0), 1, 1, 1) == ["awaiting_approval"] * 3


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], "passed"),
        (["passed", "awaiting_approval", "passed"], "awaiting_approval"),
        (["awaiting_approval", "refused", "passed"], "refused"),
    ],
)
def test_the_worst_verdict_counts(found: list[Verdict], expected: str) -> None:
    assert worst(Finding("rule", verdict, 1, None, "") for verdict in found) == expected
