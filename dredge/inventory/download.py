"""Brings one file of an inventory to this machine, in pieces, and checks every byte of it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from dredge.errors import FormatError, NotFoundError
from dredge.inventory.manifest import InventoryFile
from dredge.storage import open_reader


@contextmanager
def downloaded(file: InventoryFile) -> Iterator[str]:
    """Have a file of an inventory on this machine until the end of the block; stores are reached as this process's
    environment says.

    Args:
        file: as its manifest describes it.

    Returns:
        The path of the copy.

    Raises:
        FormatError: it is missing, or not as long, or has other bytes than the manifest says.
    """
    folder, _, name = file.uri.rpartition("/")
    digest, size = hashlib.md5(usedforsecurity=False), 0
    with tempfile.NamedTemporaryFile(prefix="dredge-inventory-", suffix=f"-{name[-20:]}") as sink:
        try:
            with open_reader(folder).open_read(name) as stream:
                for chunk in stream:
                    digest.update(chunk)
                    size += len(chunk)
                    sink.write(chunk)
        except NotFoundError:
            raise FormatError(f"{file.uri} of the inventory is missing. Nothing was deleted.") from None
        if size != file.size or (file.md5 and digest.hexdigest() != file.md5):
            raise FormatError(
                f"{file.uri} is not the file that the inventory's manifest describes: {size:,} bytes with MD5"
                f" {digest.hexdigest()} instead of {file.size:,} with {file.md5 or 'any'}. Nothing was deleted."
            )
        sink.flush()
        yield sink.name
