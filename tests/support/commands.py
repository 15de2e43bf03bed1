"""Commands of `dredge gc`, run in this process against an embedded lakeFS."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dredge.cli import main
from dredge.lakefs.client import ACCESS_KEY, ENDPOINT, SECRET_KEY
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server

ORPHAN = "data/orphan"
# Settings of a run that deletes garbage which is a second old.
COLLECT_NOW = [
    "--unsafe-min-age-seconds=1",
    "--unsafe-grace-seconds=0",
    "--max-delete-percent=100",
    "--quiet",
]


def call_gc(*words: str) -> int:
    """Run `dredge gc` with these words, and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["gc", *words])
    return int(ended.value.code or 0)


def gc(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Return exit code, output and errors of `dredge gc` with these words."""
    capsys.readouterr()
    code = call_gc(*words)
    said = capsys.readouterr()
    return code, said.out, said.err


@contextmanager
def server(folder: Path, **options: Any) -> Iterator[Lake]:
    with pytest.MonkeyPatch.context() as environment, lakefs_server(folder, **options) as found:
        environment.setenv(ENDPOINT, found.server.endpoint)
        environment.setenv(ACCESS_KEY, KEY_PAIR.access_key_id)
        environment.setenv(SECRET_KEY, KEY_PAIR.secret_access_key)
        yield found
