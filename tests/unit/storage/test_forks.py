"""Clients do not survive a fork (P15): nothing is built early, and a child builds its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dredge.storage import StorageOptions, open_writer
from tests.support.objectstore import make_bucket

ROOT = Path(__file__).resolve().parents[3]

CHILD = """
import os, signal, sys, warnings
from dredge.storage import open_deleter, open_reader, open_writer
uri = sys.argv[1]
writer = open_writer(uri)
writer.put("parent", b"1")
assert writer.get("parent") == b"1"
assert "obstore" in sys.modules
warnings.simplefilter("ignore")
pid = os.fork()
if pid == 0:
    signal.alarm(30)
    try:
        assert writer.get("parent") == b"1"
        writer.put("child", b"2")
        assert [k for b in writer.list() for k in b.column(0).to_pylist()] == ["child", "parent"]
        assert list(open_reader(uri).get_many(["child", "parent"])) == [("child", b"2"), ("parent", b"1")]
        assert [o.outcome for o in open_deleter(uri).delete(["parent"])] == ["deleted"]
        if os.fork() == 0:
            signal.alarm(30)
            assert writer.get("child") == b"2"
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert writer.get("child") == b"2"
print("fine")
"""


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


def test_a_child_of_a_process_that_used_s3_goes_on_by_itself(moto_options: StorageOptions) -> None:
    bucket = make_bucket(moto_options)
    assert run(CHILD, f"{bucket.uri}/lake", options=moto_options) == "fine"


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


def test_threads_share_one_client(moto_options: StorageOptions) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from dredge.storage.s3.clients import bytes_client, s3_client

    bucket = make_bucket(moto_options)
    writer = open_writer(bucket.uri, bucket.options)
    with ThreadPoolExecutor(8) as threads:
        clients = set(threads.map(lambda _: id(s3_client(bucket.options, bucket.bucket)), range(32)))
        stores = set(threads.map(lambda _: id(bytes_client(bucket.options, bucket.bucket)), range(32)))
        list(threads.map(lambda n: writer.put(f"k{n}", b""), range(32)))
    assert len(clients) == len(stores) == 1
    assert len(bucket.keys()) == 32
