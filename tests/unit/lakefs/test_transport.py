"""lakefs-sdk is loaded as far as it is needed, and is whole for everybody else in the process."""

import subprocess
import sys

_CLIENT = """
import sys
from dredge.lakefs import LakeFSClient
LakeFSClient("http://127.0.0.1:1", "key", "secret")
loaded = {name for name in sys.modules if name.startswith("lakefs_sdk.")}
assert "lakefs_sdk.api_client" in loaded, loaded
assert not any(name.startswith(("lakefs_sdk.api.", "lakefs_sdk.models.")) for name in loaded), loaded
"""


def _run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


def test_a_client_loads_no_call_and_no_model_and_whoever_wants_them_later_has_them() -> None:
    _run(
        _CLIENT
        + """
import threading
import lakefs_sdk
found = []
threads = [threading.Thread(target=lambda: found.append(lakefs_sdk.BranchesApi)) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(found) == 8 and len(set(found)) == 1, found
from lakefs_sdk.models import Commit
import lakefs_sdk.models.commit
assert lakefs_sdk.Commit is Commit is lakefs_sdk.models.commit.Commit
assert lakefs_sdk.__version__
import lakefs
lakefs.Client(host="http://127.0.0.1:1", username="key", password="secret")
assert not hasattr(lakefs_sdk, "no_such_name")
"""
    )


def test_an_sdk_that_is_loaded_already_stays_as_it_is() -> None:
    _run(
        """
import sys
import lakefs_sdk
before = {name: id(module) for name, module in sys.modules.items() if name.startswith("lakefs_sdk")}
from dredge.lakefs import LakeFSClient
LakeFSClient("http://127.0.0.1:1", "key", "secret")
assert before == {name: id(module) for name, module in sys.modules.items() if name.startswith("lakefs_sdk")}
"""
    )
