"""A folder with a complete small lakeFS: metadata, objects, and its key pair.

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
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from dredge.errors import ConfigError, FormatError

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
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
        key = "AKIAJ" + "".join(secrets.choice(alphabet) for _ in range(14)) + "Q"
        return cls(key, secrets.token_urlsafe(30), user_name)


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
