"""What a process must load before it can begin a step."""

from __future__ import annotations

import subprocess
import sys


def test_the_steps_load_no_client_and_no_pandas_before_they_are_used() -> None:
    """Each task of a run is a process of its own; pandas alone takes half a second."""
    heavy = ["pandas", "boto3", "botocore", "obstore", "lakefs_sdk", "pyspark", "numba.core"]
    code = f"import sys, dredge.gc.steps; print([name for name in {heavy!r} if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"
