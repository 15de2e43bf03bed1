"""Text of a connection, as a user gave it: taken whole or refused, and repeated in no message.

A password that is not percent-encoded moves into another part of a URL (`/ # ? @ [`), so no part of a URL that is not
plain can be shown.
"""

from __future__ import annotations

import re

from dredge.errors import ConfigError

_PLAIN = re.compile(
    r"(?P<server>https?://(?:\[[0-9a-f:.]+\]|[\w.-]+)(?::\d{1,5})?)(?P<path>/[^?#@\s]*)?", re.IGNORECASE
)


def check_server_url(url: str, setting: str, example: str) -> str:
    """Check the URL of a server.

    Args:
        url: as the user gave it.
        setting: what it is the URL of, for the message.
        example: a right one, for the message.

    Returns:
        Scheme, host and port, which messages may show.

    Raises:
        ConfigError: it is no `http(s)://host:port/path`, or has credentials, a query or a fragment.
    """
    found = _PLAIN.fullmatch(url)
    if found is None:
        raise ConfigError(
            f"{setting} must be a plain URL such as {example}, and must not carry credentials: give those in fields of"
            " their own. Nothing was touched."
        )
    return found["server"]


def check_key(key: str | None, setting: str) -> None:
    """Check that a key can be sent: HTTP libraries repeat in their errors what they cannot send.

    Args:
        key: a key, a secret or a token; None where there is none.
        setting: its name, for the message.

    Raises:
        ConfigError: it has a line break, a space at an end, or characters outside of ASCII.
    """
    if key is not None and not (key.isascii() and key.isprintable() and key == key.strip()):
        raise ConfigError(
            f"{setting} has a line break, a space at an end, or a character outside of ASCII, so it was not copied"
            " right. Nothing was touched."
        )
