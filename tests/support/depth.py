"""Number of cases of the hunts: `./run test` repeats the same cases, `./run test long` runs more.

DREDGE_TESTS=long (set by `./run test long`) takes each hunt's second number, and Hypothesis draws new cases each
time; otherwise all cases are the same in every run.
"""

import os

from hypothesis import settings

IS_LONG = os.environ.get("DREDGE_TESTS") == "long"


def depth(quick: int, long: int, variable: str = "") -> int:
    return int(os.environ.get(variable, long if IS_LONG else quick))


def load_profile() -> None:
    """Choose Hypothesis's profile for tests without one."""
    settings.register_profile("quick", derandomize=True, deadline=None)
    settings.register_profile("long", max_examples=1000, deadline=None, print_blob=True)
    settings.load_profile("long" if IS_LONG else "quick")
