"""Clients do not survive a fork (P15): nothing is built early, and a child builds its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dredge.storage import StorageOptions

ROOT = Path(__file__).resolve().parents[3]


def run(script: str, *arguments: str, options: StorageOptions | None = None) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        **(options.to_env() if options else {}),
    }
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_who_opens_azure_has_loaded_its_client_before_many_threads_do() -> None:
    uri, module = "https://account.blob.core.windows.net/lake", "azure.storage.blob"
    opening = "import sys; from dredge.storage import open_reader; open_reader(sys.argv[1])"
    assert run(f"{opening}; print(sys.argv[2] in sys.modules)", uri, module) == "True"


@pytest.mark.parametrize(
    "module", ["dredge.storage", "dredge.storage.s3.store", "dredge.storage.azure.store", "dredge.kv"]
)
def test_importing_loads_no_client(module: str) -> None:
    heavy = "{'obstore', 'boto3', 'botocore', 'psycopg', 'pandas', 'requests', 'azure.core', 'azure.storage.blob'}"
    assert run(f"import sys, {module}; print(sorted(set(sys.modules) & {heavy}))") == "[]"


def test_opening_connects_to_nothing() -> None:
    script = (
        "import sys\nfrom dredge.storage import *\n"
        "for uri in ('s3://b/p', 'gs://b/p', 'https://a.blob.core.windows.net/c', 'file:///tmp/x'):\n"
        "    for opener in (open_reader, open_writer, open_deleter): opener(uri)\n"
        "print(sorted(set(sys.modules) & {'obstore', 'boto3'}))"
    )
    assert run(script) == "[]"
