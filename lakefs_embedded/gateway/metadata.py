"""User metadata: headers `x-amz-meta-*`, stored in entries as lakeFS stores them.

    x-amz-meta-Colour: blue   ->   {"X-Amz-Meta-colour": "blue"}

Values that are not ASCII are accepted encoded (RFC 2047) or as UTF-8 bytes; responses encode them.

Source: lakeFS pkg/gateway/operations/operation_utils.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.errors import HeaderParseError
from email.header import decode_header

from lakefs_embedded.gateway.errors import S3Error
from lakefs_embedded.gateway.sigv4 import RawRequest

STORED_PREFIX = "X-Amz-Meta-"
BYTES_MAX = 2048  # names and values together
_PREFIX = b"x-amz-meta-"
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_WORD_MAX = 75 - len("=?utf-8?q??=")
_ENCODED = re.compile(r"=\?[^?]+\?[bBqQ]\?[^?]*\?=")


def read_metadata(request: RawRequest) -> dict[str, str]:
    """Read the user metadata of an upload. Raises S3Error: more than 2 KB.

    Values of a repeated header are joined by commas.
    """
    found: dict[str, str] = {}
    size = 0
    for raw_name, raw_value in request.headers:
        if raw_name.startswith(_PREFIX):
            name = raw_name.removeprefix(_PREFIX).decode("latin-1").lower()
            value = _decode(raw_value)
            size += len(name) + len(value)
            if size > BYTES_MAX:
                raise S3Error("MetadataTooLarge")
            if _NAME.fullmatch(name):
                earlier = found.get(STORED_PREFIX + name)
                found[STORED_PREFIX + name] = value if earlier is None else f"{earlier},{value}"
    return found


def metadata_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    """Build response headers; metadata not set through S3 is left out."""
    headers: dict[str, str] = {}
    missing = 0
    for key, value in metadata.items():
        name = key.removeprefix(STORED_PREFIX)
        if name == key:
            continue
        if _NAME.fullmatch(name):
            headers[f"x-amz-meta-{name.lower()}"] = _encode(value)
        else:
            missing += 1
    if missing:
        headers["x-amz-missing-meta"] = str(missing)
    return headers


def _decode(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    if not _ENCODED.search(text):
        return text.strip()
    try:
        parts = decode_header(text)
        return "".join(
            part if isinstance(part, str) else part.decode(charset or "utf-8") for part, charset in parts
        )
    except (HeaderParseError, UnicodeDecodeError, LookupError):
        raise S3Error("InvalidArgument", "Invalid header value.") from None


def _encode(value: str) -> str:
    if value.isascii() and (value.isprintable() or value.replace("\t", "").isprintable()):
        return value
    words, word = [], ""
    for char in value:
        encoded = _q_encoded(char)
        if len(word) + len(encoded) > _WORD_MAX:
            words.append(word)
            word = ""
        word += encoded
    return " ".join(f"=?utf-8?q?{each}?=" for each in (*words, word))


def _q_encoded(char: str) -> str:
    if char == " ":
        return "_"
    if "!" <= char <= "~" and char not in "=?_":
        return char
    return "".join(f"={byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))
