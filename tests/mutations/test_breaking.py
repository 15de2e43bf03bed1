"""A broken guard is broken in the process that has it, and whole again in none."""

import os
import subprocess
import sys

from tests.mutations.breaking import ROOT

_BREAK = """
import dredge.runs.limits as limits
from tests.mutations.breaking import break_in_place, break_product
from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Always, Drop
asked = limits.worst
print(break_in_place([Breakage("", "dredge.runs.limits", "worst", Always("broken"))]), asked([]))
print(break_in_place([Breakage("", "dredge.runs.limits", "", Drop("FunctionDef", "worst"))]))
break_product([Breakage("", "dredge.gc.namespaces", "overlaps", Always("broken"))])
from dredge.gc.namespaces import overlaps
print(overlaps({}))
"""


def test_functions_are_broken_where_they_are_and_modules_before_they_are_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BREAK],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["True", "broken", "False", "broken"], done.stderr
