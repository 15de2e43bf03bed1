"""How a task reaches lakeFS's key-value store: by variables of its environment, never through plans or arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dredge.errors import ConfigError
from dredge.kv.opening import open_row_reader
from dredge.kv.rows import RowReader

if TYPE_CHECKING:
    from dredge.kv.dynamodb import AwsKeys

URL = "DREDGE_KV_URL"
ACCESS_KEY = "DREDGE_KV_ACCESS_KEY_ID"
SECRET_KEY = "DREDGE_KV_SECRET_ACCESS_KEY"
SESSION_TOKEN = "DREDGE_KV_SESSION_TOKEN"


@dataclass(frozen=True, slots=True)
class KVAccess:
    """Where lakeFS's key-value store is, and the credentials for it.

    Attributes:
        url: `postgresql://…`, `dynamodb://…` or `sqlite:///…`; it may contain a password.
        keys: for DynamoDB, instead of those that the environment has.
    """

    url: str = field(repr=False)
    keys: AwsKeys | None = field(default=None, repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> KVAccess:
        """Read the variables that `to_env` gives.

        Args:
            environ: defaults to this process's.

        Raises:
            ConfigError: they are not set.
        """
        env = os.environ if environ is None else environ
        if not env.get(URL):
            raise ConfigError(
                f"this run was planned to read lakeFS's key-value store, but {URL} is not set here. Nothing was"
                " deleted. Name the connection of the store (kv_conn_id) to every task, or plan a run without it."
            )
        if not env.get(ACCESS_KEY) or not env.get(SECRET_KEY):
            return cls(env[URL])
        from dredge.kv.dynamodb import AwsKeys

        return cls(env[URL], AwsKeys(env[ACCESS_KEY], env[SECRET_KEY], env.get(SESSION_TOKEN) or None))

    def to_env(self) -> dict[str, str]:
        """Give the variables for a child process, secrets included."""
        found = {URL: self.url}
        if self.keys is not None:
            found |= {ACCESS_KEY: self.keys.access_key_id, SECRET_KEY: self.keys.secret_access_key}
            if self.keys.session_token:
                found[SESSION_TOKEN] = self.keys.session_token
        return found

    def open(self) -> closing[RowReader]:
        """Open the store to look at it; nothing can be changed through it."""
        return closing(open_row_reader(self.url, keys=self.keys))
