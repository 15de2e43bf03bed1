"""How to reach Google Cloud Storage: whose credentials, whose bill, which endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from dredge.connections import check_server_url
from dredge.errors import ConfigError

ENDPOINT = "https://storage.googleapis.com"
CREDENTIALS_JSON = "DREDGE_GCS_CREDENTIALS_JSON"
"""Variable that carries a key to processes that have no key file, such as the executors of a Spark cluster."""


@dataclass(frozen=True, slots=True)
class GcsOptions:
    """Settings of Google Cloud Storage; secrets never show in `repr`.

    Attributes:
        credentials_file: path of a key file (or of any file that Google's libraries take for credentials).
        credentials_json: content of such a file; comes before the path.
        project: of signed-in users without one of their own; None leaves it to the credentials.
        user_project: the project that pays for requests to a bucket whose requesters pay.
        endpoint_url: another endpoint than Google's, such as an emulator or a private one; without credentials of ours,
            requests to it are not signed.
        retry_seconds: how long a request is tried again when the service is busy or out of reach.
    """

    credentials_file: str | None = None
    credentials_json: str | None = field(default=None, repr=False)
    project: str | None = None
    user_project: str | None = None
    endpoint_url: str | None = None
    retry_seconds: float = 120.0

    def __post_init__(self) -> None:
        if self.endpoint_url is not None:
            check_server_url(self.endpoint_url, "the endpoint of Google Cloud Storage", "http://host:4443")
        if self.credentials_json is not None and not _is_object(self.credentials_json):
            raise ConfigError("the key of Google Cloud Storage is not the content of a JSON key file")

    @property
    def endpoint(self) -> str:
        """Where requests go, without a slash at the end."""
        return (self.endpoint_url or ENDPOINT).rstrip("/")

    @property
    def is_anonymous(self) -> bool:
        """Whether requests carry no credentials: they go to somebody's own endpoint, and none were given."""
        return self.endpoint_url is not None and not (self.credentials_file or self.credentials_json)

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> GcsOptions:
        """Read the variables that Google's own libraries know, and those that `to_env` adds."""
        host = env.get("STORAGE_EMULATOR_HOST") or None
        return cls(
            credentials_file=env.get("GOOGLE_APPLICATION_CREDENTIALS") or None,
            credentials_json=env.get(CREDENTIALS_JSON) or None,
            project=env.get("GOOGLE_CLOUD_PROJECT") or None,
            user_project=env.get("DREDGE_GCS_USER_PROJECT") or None,
            endpoint_url=f"http://{host}" if host and "://" not in host else host,
        )

    def to_env(self) -> dict[str, str | None]:
        """Give the variables from which `from_env` makes these options in a child process, with secrets.

        Where a key or an endpoint is told, what is not told is empty: nothing of the child's own is mixed in.
        """
        values = {
            "GOOGLE_APPLICATION_CREDENTIALS": self.credentials_file,
            CREDENTIALS_JSON: self.credentials_json,
            "GOOGLE_CLOUD_PROJECT": self.project,
            "DREDGE_GCS_USER_PROJECT": self.user_project,
            "STORAGE_EMULATOR_HOST": self.endpoint_url,
        }
        is_told = self.credentials_file or self.credentials_json or self.endpoint_url
        return {name: value or "" for name, value in values.items()} if is_told else values


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
