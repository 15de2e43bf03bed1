"""Names of versions of the state."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the state.

    Attributes:
        name: of its file.
        sha256: of the file's bytes.
    """

    name: str
    sha256: str

    def to_json(self) -> dict[str, str]:
        """As a JSON object."""
        return {"name": self.name, "sha256": self.sha256}
