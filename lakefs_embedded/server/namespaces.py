"""Storage namespaces of this server; all others are refused before any access."""

import os
import re
import threading
from collections.abc import Iterable

from dredge.storage import ObjectReader, ObjectWriter, StorageOptions, open_reader, open_writer
from lakefs_embedded.errors import InvalidValueError, NamespaceInUseError
from lakefs_embedded.server.settings import ServerSettings

_LOCAL_NAMESPACE = re.compile(r"^(?:(?:local|file)://(?=/)|local://(?!/))([^?#%]+)$", re.DOTALL)
_BUCKETS = {
    "s3": r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/|$)",
    "azure": r"^https?://[a-z0-9.:-]+(/[a-z0-9]{3,24})?/[a-z0-9][a-z0-9-]{1,61}[a-z0-9](/|$)",
    "gs": r"^gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/|$)",
}


class NamespaceRefusedError(InvalidValueError):
    """A namespace outside the server's block store."""


class Namespaces:
    """Opens storage namespaces, with one cached writer per namespace.

    Local namespaces are `local://name`, as on a real server: a folder below the base folder; or `local:///abs/folder`
    or `file:///abs/folder` below it (the SDK refuses to send the last form). Their path is literal, as everywhere in
    Dredge: `..`, `.`, empty parts, URI syntax (`?`, `#`, `%`) and symbolic links out of the base are refused. S3
    namespaces are `s3://bucket/prefix`, those of Google Cloud Storage `gs://bucket/prefix`, and those of Azure
    `https://account.blob.core.windows.net/container/prefix`.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.blockstore = settings.blockstore
        self.can_import = settings.blockstore != "local" or settings.local_import
        self._base = os.path.realpath(settings.local_base) if settings.local_base else ""
        self._options = settings.storage or StorageOptions.from_env()
        self._writers: dict[str, ObjectWriter] = {}
        self._lock = threading.Lock()

    @property
    def example(self) -> str:
        """Example of a valid namespace URI."""
        if self.blockstore == "azure":
            return "https://mystorageaccount.blob.core.windows.net/mycontainer/"
        return f"{self.blockstore}://example-bucket/"

    @property
    def pattern(self) -> str:
        """Regular expression for namespace URIs, shown by clients; `check` is stricter."""
        return "^https?://" if self.blockstore == "azure" else f"^{self.blockstore}://"

    def check(self, uri: str) -> None:
        """Check that a namespace is inside the server's block store."""
        allowed = (
            self._is_local(uri) if self.blockstore == "local" else re.match(_BUCKETS[self.blockstore], uri)
        )
        if not allowed:
            raise NamespaceRefusedError(
                f"storage namespace {uri!r}: failed to match required regex {self.pattern}: invalid namespace"
            )

    def check_address(self, address: str) -> None:
        """Check that the address of an object is of the server's kind of store."""
        schemes = {"local": ("local://", "file://"), "azure": ("https://", "http://")}
        if not address.startswith(schemes.get(self.blockstore, (f"{self.blockstore}://",))):
            raise NamespaceRefusedError(f"physical address is not valid for block adapter: {self.blockstore}")

    def check_unshared(self, uri: str, others: Iterable[str]) -> None:
        """Refuse a local namespace inside or around another one with a different spelling.

        Namespaces are compared as text, also by a garbage collector: `local://shop/data/x` does not look like a part of
        `local:///base/shop`, whose collection would delete it.
        """
        if self.blockstore != "local":
            return
        ours = self.absolute(uri).rstrip("/")
        for other in others:
            theirs = self.absolute(other).rstrip("/")
            nested = f"{ours}/".startswith(f"{theirs}/") or f"{theirs}/".startswith(f"{ours}/")
            if nested and uri.startswith("local:///") != other.startswith("local:///"):
                raise NamespaceInUseError(
                    f"failed to create repository: storage namespace already in use: {other} is the same folder, or "
                    f"lies in or around {uri}"
                )

    def absolute(self, uri: str) -> str:
        """Expand a local URI to its whole path; any other URI stays as it is."""
        match = _LOCAL_NAMESPACE.match(uri) if self.blockstore == "local" else None
        return uri if match is None else f"local://{os.path.join(self._base, match[1])}"

    def open(self, uri: str) -> ObjectWriter:
        """Return the writer of a namespace. Raises NamespaceRefusedError outside the block store."""
        with self._lock:
            cached = self._writers.get(uri)
        if cached is not None:
            return cached
        self.check(uri)
        writer = open_writer(self.absolute(uri), self._options)
        with self._lock:
            return self._writers.setdefault(uri, writer)

    def open_source(self, uri: str) -> ObjectReader:
        """Return a reader of an import source. Raises NamespaceRefusedError outside the block store."""
        self.check(uri)
        return open_reader(self.absolute(uri), self._options)

    def _is_local(self, uri: str) -> bool:
        match = _LOCAL_NAMESPACE.match(uri)
        if match is None:
            return False
        path = match[1].rstrip("/")
        parts = path.removeprefix("/").split("/")
        if not parts or any(part in ("", ".", "..") for part in parts):
            return False
        return os.path.realpath(os.path.join(self._base, path)).startswith(self._base + "/")
