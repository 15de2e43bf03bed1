"""Which names objects of Google Cloud Storage can have.

Source: Cloud Storage documentation, "About Cloud Storage objects", object name requirements.
"""

from __future__ import annotations

from dataclasses import dataclass

from dredge.errors import ConfigError, NotFoundError
from dredge.storage.keys import is_text
from dredge.storage.location import Location

NAME_BYTES_MAX = 1024


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of a bucket.

    Attributes:
        bucket: its name.
        root: prefix of all names, with a slash at the end, or "".
        uri: for messages.
    """

    bucket: str
    root: str
    uri: str

    @classmethod
    def of(cls, location: Location) -> Place:
        """From a parsed URI."""
        return cls(location.bucket, f"{location.root}/" if location.root else "", location.uri)

    def holds(self, key: str) -> bool:
        """Whether there can be an object of this key."""
        return bool(key) and is_text(key) and _is_name(self.root + key)

    def name(self, key: str) -> str:
        """The whole name of an object that may be there; raises NotFoundError where none can be."""
        if not self.holds(key):
            raise NotFoundError(f"{key!r} is no name that an object below {self.uri} can have")
        return self.root + key

    def target(self, key: str) -> str:
        """The whole name of an object to write; raises ConfigError where none can be."""
        if not self.holds(key):
            raise ConfigError(
                f"{key!r} cannot be the name of an object below {self.uri}; nothing was written"
            )
        return self.root + key


def _is_name(name: str) -> bool:
    if name in {".", ".."} or name.startswith(".well-known/acme-challenge/"):
        return False
    return "\n" not in name and "\r" not in name and len(name.encode()) <= NAME_BYTES_MAX
