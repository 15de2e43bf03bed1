"""One object store of each kind, for the tests of the drivers."""

import uuid
from dataclasses import dataclass

import pytest

from dredge.storage import ObjectDeleter, ObjectReader, ObjectWriter, StorageOptions
from tests.support.azure import make_container
from tests.support.gcs import make_gcs_bucket
from tests.support.memory_store import memory_store
from tests.support.memory_versions import OlderVersions
from tests.support.objectstore import make_bucket

AZURITE = pytest.param("azure", marks=pytest.mark.stores)
KINDS = ["local", "memory", "s3", "gcs", pytest.param("gcs_emulator", marks=pytest.mark.stores), AZURITE]


@dataclass
class Stores:
    kind: str
    uri: str
    options: StorageOptions
    reader: ObjectReader
    writer: ObjectWriter
    deleter: ObjectDeleter

    def keys(self, prefix: str = "", **bounds: str) -> list[str]:
        return [key for batch in self.reader.list(prefix, **bounds) for key in batch.column(0).to_pylist()]


def new_folder(
    request: pytest.FixtureRequest, kind: str, versioned: bool = False
) -> tuple[str, StorageOptions]:
    """A folder in a new bucket of a kind of store. With versions, Azure is a server of ours: Azurite keeps none."""
    if kind == "local":
        return f"file://{request.getfixturevalue('tmp_path')}/lake/repo", StorageOptions()
    if kind == "memory":
        name = uuid.uuid4().hex
        if versioned:
            memory_store(name).older = OlderVersions()
        return f"memory://{name}/lake/repo", StorageOptions()
    if kind in ("gcs", "azure") and (versioned or kind == "gcs"):
        server = request.getfixturevalue(f"{kind}_server")
        make = server.bucket if kind == "gcs" else server.container
        return f"{make(versioned=versioned)}/lake/repo", server.options
    fixture = {"s3": "moto_options", "azure": "azure_options", "gcs_emulator": "fake_gcs_options"}[kind]
    options: StorageOptions = request.getfixturevalue(fixture)
    if kind == "s3":
        return f"{make_bucket(options, versioned=versioned).uri}/lake/repo", options
    made = make_gcs_bucket(options) if kind == "gcs_emulator" else make_container(options).uri
    return f"{made}/lake/repo", options
