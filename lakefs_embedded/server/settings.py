"""Settings of the embedded server, validated on construction, and a folder with a complete small lakeFS.

    <folder>/kv.db         key-value store (SQLite)
    <folder>/objects/      storage namespaces, one folder per repository
    <folder>/server.json   key pair and signing key, readable by its owner only

`server.json` is written once, so a restarted server still accepts the key pair, its users' secrets and the physical
addresses it has issued.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from dredge.errors import ConfigError, FormatError
from dredge.storage import StorageOptions
from lakefs_embedded.auth.model import new_access_key_id, new_secret
from lakefs_embedded.catalog import CATALOG_DEFECTS, Settings

SECRETS_FILE = "server.json"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key pair and its user, the committer of its commits; the secret is shown only when it is generated."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    user_name: str = "admin"

    def __post_init__(self) -> None:
        if not (self.access_key_id and self.secret_access_key and self.user_name):
            raise ConfigError("access key id, secret access key and user name must not be empty")

    @classmethod
    def generate(cls, user_name: str = "admin") -> Credentials:
        """Generate a key pair in lakeFS's format (20 and 40 characters)."""
        return cls(new_access_key_id(), new_secret(), user_name)


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Paths and secrets of a data folder.

    Attributes:
        signing_key: signs login tokens and issued physical addresses.
        created: whether this call generated the key pair, to be shown now.
    """

    path: str
    credentials: Credentials
    signing_key: str = field(repr=False)
    created: bool = False

    @property
    def kv_url(self) -> str:
        """URL of the key-value store."""
        return f"sqlite://{quote(self.path)}/kv.db"

    @property
    def objects(self) -> str:
        """Folder of the storage namespaces."""
        return f"{self.path}/objects"

    @property
    def secrets_path(self) -> str:
        """File with the key pair."""
        return f"{self.path}/{SECRETS_FILE}"

    @classmethod
    def open(cls, folder: str | os.PathLike[str], credentials: Credentials | None = None) -> DataFolder:
        """Open a data folder, creating it if needed; `credentials` are used without storing them.

        Raises ConfigError when it cannot be created or read, FormatError for a damaged secrets file.
        """
        path = Path(os.path.abspath(folder))
        try:
            (path / "objects").mkdir(parents=True, exist_ok=True)
            stored, created = _read_or_create(path / SECRETS_FILE)
        except OSError as problem:
            raise ConfigError(f"the data folder {path} cannot be used: {problem}") from problem
        try:
            own = Credentials(stored["access_key_id"], stored["secret_access_key"], stored["user_name"])
            signing_key = str(stored["signing_key"])
        except (KeyError, TypeError) as problem:
            raise _damaged(path / SECRETS_FILE) from problem
        return cls(str(path), credentials or own, signing_key, created and credentials is None)


def _read_or_create(path: Path) -> tuple[dict[str, str], bool]:
    generated = Credentials.generate()
    fresh = {
        "access_key_id": generated.access_key_id,
        "secret_access_key": generated.secret_access_key,
        "signing_key": secrets.token_urlsafe(32),
        "user_name": generated.user_name,
    }
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(json.dumps(fresh, indent=1) + "\n")
        os.link(draft, path)
    except FileExistsError:  # another process was first
        try:
            return json.loads(path.read_text()), False
        except ValueError as problem:
            raise _damaged(path) from problem
    finally:
        draft.unlink()
    return fresh, True


def _damaged(path: Path) -> FormatError:
    return FormatError(
        f"{path} is not a key file of this server. Restore it, or remove it to get a new key pair."
    )


HTTP_DEFECTS: frozenset[str] = frozenset(
    {
        "double_body_prepare_commits",  # 400 and two JSON documents although the CSV was written
        "prepare_commits_404",  # a 404 of a proxy or an internal lookup that looks like "no rules"
        "prepare_commits_500_async",  # a server before 1.72 answers 500 to asynchronous calls
    }
)
DEFECTS: frozenset[str] = HTTP_DEFECTS.union(CATALOG_DEFECTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of one server.

    Attributes:
        listen: `host:port`; port 0 picks a free port.
        kv_url: `memory://`, `sqlite:///abs/path.db` or any other URL of `dredge.kv.open_store`.
        blockstore: place of the objects: "local" (a folder), "s3", "gs" (Google Cloud Storage) or "azure".
        local_base: absolute path of the folder of all local namespaces; required for "local".
        local_import: allow imports on a "local" server, from folders below `local_base`; "s3" always allows them.
        storage: connection options for S3; None reads the usual AWS variables.
        credentials: key pair of the server's own administrator; None starts without users, to be set up through
            `POST /setup_lakefs`.
        signing_key: signs login tokens and issued physical addresses; changing it invalidates both.
        catalog: settings of the data model; its signing key and `presign` are replaced by those here.
        defects: names from DEFECTS to switch on: known faults of real servers, for tests.
        rbac: "internal" or "simplified": users, groups and policies are managed through the API. "none": there is one
            user, and calls about groups, policies and more users answer 501, as on a real server with basic
            authentication.
        presign: let clients read and write objects in the store itself, by pre-signed URLs; only on "s3".
    """

    listen: str = "127.0.0.1:8000"
    kv_url: str = "memory://"
    blockstore: Literal["local", "s3", "gs", "azure"] = "local"
    local_base: str | None = None
    local_import: bool = False
    storage: StorageOptions | None = None
    credentials: Credentials | None = None
    signing_key: str = field(default="local-signing-secret", repr=False)
    catalog: Settings = field(default_factory=Settings)
    defects: frozenset[str] = frozenset()
    rbac: Literal["none", "simplified", "internal"] = "internal"
    presign: bool = True

    def __post_init__(self) -> None:
        if self.blockstore not in ("local", "s3", "gs", "azure"):
            raise ConfigError(f"unknown block store {self.blockstore!r}; use 'local', 's3', 'gs' or 'azure'")
        if self.blockstore == "local" and not (self.local_base or "").rstrip("/").startswith("/"):
            raise ConfigError(
                "the local block store needs local_base: an absolute folder other than /, for its namespaces"
            )
        unknown = sorted(self.defects - DEFECTS)
        if unknown:
            raise ConfigError(
                f"unknown defects {', '.join(unknown)}; choose from {', '.join(sorted(DEFECTS))}"
            )
        if self.rbac not in ("none", "simplified", "internal"):
            raise ConfigError(f"unknown rbac {self.rbac!r}; use 'none', 'simplified' or 'internal'")
        if not self.signing_key:
            raise ConfigError("the signing key must not be empty")
        split_listen(self.listen)

    @classmethod
    def for_folder(cls, folder: str | os.PathLike[str], **changes: Any) -> ServerSettings:
        """Settings for a server in one folder (see `DataFolder`), on a free local port.

        An existing folder keeps its key pair.
        """
        data = DataFolder.open(folder)
        defaults: dict[str, Any] = {
            "listen": "127.0.0.1:0",
            "kv_url": data.kv_url,
            "local_base": data.objects,
            "credentials": data.credentials,
            "signing_key": data.signing_key,
        }
        return cls(**(defaults | changes))

    def defect(self, name: str) -> bool:
        """Whether a defect is switched on."""
        return name in self.defects

    @property
    def signs_urls(self) -> bool:
        """Whether URLs are pre-signed: enabled, and not on a folder."""
        return self.presign and self.blockstore != "local"

    @property
    def catalog_settings(self) -> Settings:
        """The catalog's settings with the server's signing key and defects."""
        return replace(
            self.catalog,
            signing_key=self.signing_key,
            presign=self.signs_urls,
            defects=self.catalog.defects | (self.defects & CATALOG_DEFECTS),
        )


def split_listen(listen: str) -> tuple[str, int]:
    """Split `host:port`; an IPv6 address is in brackets; raises ConfigError."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"listen address {listen!r} must be host:port, such as 127.0.0.1:8000")
    return host.strip("[]") or "0.0.0.0", int(port)
