import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import ORPHAN, server
from tests.support.lakefs_server import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with server(tmp_path) as found:
        branch = found.repository().branch("main")
        branch.object("kept").upload(b"kept")
        branch.commit("kept")
        found.writer().put(ORPHAN, b"orphan")
        time.sleep(1.1)  # the folder tells whole seconds
        yield found
