"""The steps under one roof: each is there, and none is loaded before it is asked for."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_a_dag_file_and_a_task_load_no_step_but_their_own() -> None:
    script = (
        "import sys\n"
        "from dredge.gc import steps\n"
        "print('pyarrow' in sys.modules, 'dredge.gc.run' in sys.modules)\n"
        "steps.slice_listing\n"
        "print(*sorted(name for name in sys.modules if name.startswith('dredge.gc.') and name.endswith('.step')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["False False", "dredge.gc.slice_listing.step"]


def test_the_steps_load_no_client_and_no_pandas_before_they_are_used() -> None:
    """Each task of a run is a process of its own; pandas alone takes half a second."""
    heavy = ["pandas", "boto3", "botocore", "obstore", "lakefs_sdk", "pyspark", "numba.core"]
    code = f"import sys, dredge.gc.steps; print([name for name in {heavy!r} if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_steps_may_be_loaded_while_another_thread_loads_them() -> None:
    """Python refuses a module whose package is being loaded by another thread."""
    script = (
        "import sys, threading\n"
        "import dredge.gc.config, dredge.gc.index.ranges\n"
        "from dredge.gc import steps\n"
        "PACKAGE = 'dredge.gc.mark_uncommitted'\n"
        "asked, inside = threading.Event(), threading.Event()\n"
        "def calls(frame, event, _):\n"
        "    if frame.f_code.co_name == '_gcd_import' and frame.f_locals['name'] == PACKAGE and not asked.is_set():\n"
        "        asked.set()\n"
        "        inside.wait(2)\n"
        "def load():\n"
        "    sys.setprofile(calls)\n"
        "    print(steps.mark_uncommitted.__name__)\n"
        "def imports(event, names):\n"
        "    if event == 'import' and names[0].startswith(PACKAGE + '.'):\n"
        "        inside.set()\n"
        "sys.addaudithook(imports)\n"
        "threading.Thread(target=load).start()\n"
        "asked.wait()\n"
        "print(steps.plan_run.__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert sorted(done.stdout.split()) == ["mark_uncommitted", "plan_run"]
