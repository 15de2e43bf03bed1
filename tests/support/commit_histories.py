"""Random histories of commits as Hypothesis draws them, with branches and rules."""

from datetime import datetime, timedelta

from hypothesis import strategies as st

from dredge.lakefs.files.records import Branch
from lakefs_embedded.catalog.garbage import Rules
from lakefs_embedded.refs.records import Commit
from tests.support.lakes import START


@st.composite
def histories(
    draw: st.DrawFn, now: datetime = START, in_order: bool = False
) -> tuple[list[Commit], list[Branch], Rules]:
    """Draw commits, each after its parents, branches that have some of them, and rules."""
    names = draw(st.permutations([f"{number:02x}" for number in range(draw(st.integers(1, 10)))]))
    ages = [draw(st.integers(-5, 60)) for _ in names]
    commits: list[Commit] = []
    for name, age in zip(names, sorted(ages, reverse=True) if in_order else ages, strict=True):
        earlier = [commit.id for commit in commits]
        parents = draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True)) if earlier else []
        version, date = draw(st.integers(0, 1)), now - timedelta(days=age)
        commits.append(Commit(name, "", "", date, "", parents=tuple(parents), version=version))
    heads = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4))
    branches = [Branch(f"b{number}", head, "") for number, head in enumerate(heads)]
    days = st.integers(0, 60)
    rules = Rules(draw(days), {branch.name: draw(days) for branch in branches if draw(st.booleans())})
    return commits, branches, rules
