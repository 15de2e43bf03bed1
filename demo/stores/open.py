"""Opens a store by name."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dredge.storage import StorageOptions

type Blockstore = Literal["local", "s3", "gs", "azure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A running store with an empty bucket.

    Attributes:
        blockstore: kind in the embedded lakeFS.
        uri: parent of storage namespaces.
        options: access with keys; None for a folder.
        pid: process id; None without a separate process.
    """

    blockstore: Blockstore
    uri: str
    options: StorageOptions | None = None
    pid: int | None = None


@contextmanager
def _local(folder: Path, _log: Path | None) -> Iterator[Store]:
    yield Store(blockstore="local", uri=f"local://{folder}")


@contextmanager
def _s3(_folder: Path, _log: Path | None) -> Iterator[Store]:
    from demo.stores.moto import moto

    with moto() as options:
        yield Store(blockstore="s3", uri="s3://demo-lake", options=options)


@contextmanager
def _azure(_folder: Path, log: Path | None) -> Iterator[Store]:
    from demo.stores.azurite import azurite_process, make_container

    with azurite_process(log) as (options, pid):
        yield Store(blockstore="azure", uri=make_container(options, "demo-lake"), options=options, pid=pid)


@contextmanager
def _gcs(_folder: Path, log: Path | None) -> Iterator[Store]:
    from demo.stores.fake_gcs import fake_gcs_process, make_bucket
    from demo.stores.google_key import service_account

    with service_account() as key, fake_gcs_process(key, log) as (options, pid):
        yield Store(blockstore="gs", uri=make_bucket(options, "demo-lake"), options=options, pid=pid)


_OPEN: dict[str, Callable[[Path, Path | None], AbstractContextManager[Store]]] = {
    "local": _local,
    "s3": _s3,
    "azure": _azure,
    "gcs": _gcs,
}
STORES = tuple(_OPEN)


def open_store(name: str, folder: Path, log: Path | None = None) -> AbstractContextManager[Store]:
    """Start a store.

    Args:
        name: one of STORES.
        folder: absolute; for objects of `local`.
        log: gets a line for each request of a store in a separate process; None for none.
    """
    return _OPEN[name](folder, log)
