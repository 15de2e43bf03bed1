"""Azurite, the emulator of Azure Blob Storage, for tests; `./run` installs it."""

import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from demo.stores.azurite import ACCOUNT, KEY, azurite
from dredge.storage import StorageOptions
from dredge.storage.azure import deleting

__all__ = ["ACCOUNT", "KEY", "TestContainer", "azurite", "make_container"]


@dataclass(frozen=True)
class TestContainer:
    __test__ = False

    options: StorageOptions  # how to reach it
    uri: str  # of the container
    client: Any  # the bare SDK's, for what tests do without going through `dredge.storage`

    def names(self) -> list[str]:
        return sorted(item.name for item in self.client.list_blobs())


def copy_in_blocks(monkeypatch: pytest.MonkeyPatch, limit: int, block: int) -> None:
    monkeypatch.setattr(deleting, "COPY_LIMIT_BYTES", limit)
    monkeypatch.setattr(deleting, "BLOCK_BYTES", block)


def make_container(options: StorageOptions) -> TestContainer:
    from azure.storage.blob import ContainerClient

    name, endpoint = f"lake-{uuid.uuid4().hex[:12]}", str(options.azure.endpoint_url)
    client = ContainerClient(
        endpoint, name, credential={"account_name": ACCOUNT, "account_key": KEY}, retry_total=0
    )
    client.create_container()
    return TestContainer(options, f"{endpoint}/{name}", client)
