"""Names from a lake as Markdown. Whoever uploads chooses them, and a person who decides about deleting reads them: they
must not look like anything else, be a link, or be taken for HTML by whatever shows them."""

from __future__ import annotations

_MARKS = frozenset("`<>&|\\")
_LENGTH_MAX = 200


def plain(text: str) -> str:
    """A name as text: what is no printable character, and what Markdown or HTML could take for its own, is escaped."""
    shown = "".join(_shown(character) for character in text[:_LENGTH_MAX])
    return f"{shown}…" if len(text) > _LENGTH_MAX else shown


def code(text: str) -> str:
    """A name as a span of code, in which Markdown finds no links and no emphasis."""
    return f"`{plain(text)}`"


def _shown(character: str) -> str:
    if character.isprintable() and character not in _MARKS:
        return character
    number = ord(character)
    return (
        f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65_536 else f"\\U{number:08x}"
    )
