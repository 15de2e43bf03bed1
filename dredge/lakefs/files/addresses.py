"""Physical addresses, and their canonical form for comparisons: the key relative to the namespace.

A relative address is taken literally. A full address is a URI; inside the namespace (compared with a trailing slash;
`s3`, `s3a` and `s3n` are the same) its prefix is stripped; outside, it has no key in this namespace. A server on a
local folder writes addresses as whole paths, `local:///…/name/key`, for the namespace `local://name`. Only the server
knows the start of that path, so every occurrence of the name is tried. The oldest entries have no kind (type 0): those
with a known scheme are full.

A server parses a full address as a URI: `%20` can be a space, `?x` is a query and not part of the key, Azure trims a
trailing slash, and a user before the host (`x@`) is ignored. `canonical_address` reads it like the server;
`address_readings` returns every possible key, for a live set.

Source: lakeFS pkg/block/namespace.go, pkg/block/azure/adapter.go
"""

import re
from enum import IntEnum
from urllib.parse import quote, unquote

from dredge.errors import FormatError
from dredge.storage.schemes import served_parts

_URI = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://(.*)$", re.DOTALL)
_KNOWN_TO_SERVER = frozenset({"s3", "gs", "http", "https", "local", "mem", "memory"})
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_PLAIN = re.compile(r"[^%?#]*[^%?#/]")
_UNESCAPED_IN_PATH = "$&+,/:;=@-_.~"


class AddressType(IntEnum):
    """Kinds of an entry's address."""

    BY_PREFIX_DEPRECATED = 0
    RELATIVE = 1
    FULL = 2


def canonical_address(address: str, address_type: int, namespace: str) -> str | None:
    """Return the key of an address relative to the namespace, as a server resolves it; None outside the namespace.
    Raises FormatError for an unknown address type."""
    readings = _readings(address, address_type, namespace)
    return readings[0] if readings else None


def is_parsed_by_server(address: str) -> bool:
    """Return whether a server can parse an address as a URI: a scheme or a path, and no invalid escape."""
    match = _URI.match(address)
    return (match is not None or address.startswith("/")) and _parses(address)


def reworded(address: str) -> str:
    """Return a full address as a server spells it: without user and query, and decoded if decoding loses nothing."""
    match = _URI.match(address)
    if match is None or not _parses(match[2]):
        return address
    host, slash, rest = re.split("[?#]", match[2], maxsplit=1)[0].partition("/")
    return f"{match[1]}://{host.rpartition('@')[2]}{slash}{_decoded_path(rest)}"


def _decoded_path(path: str) -> str:
    """Decode a path; a server keeps the escaped text if escaping the decoded text would not reproduce it."""
    decoded = unquote(path, errors="surrogateescape")
    return decoded if quote(decoded, safe=_UNESCAPED_IN_PATH, errors="surrogateescape") == path else path


def address_readings(address: str, address_type: int, namespace: str) -> tuple[str, ...]:
    """Return every possible key of an address in the namespace, the server's reading first.

    There are several only for full addresses with `%`, `?`, `#` or a trailing slash, and for type 0 with a scheme.
    """
    if address_type == AddressType.RELATIVE:  # nearly all are
        return (address,)
    readings = [key for key in _readings(address, address_type, namespace) if key is not None]
    return tuple(dict.fromkeys(readings))


def answer_readings(address: str, namespace: str) -> tuple[str, ...]:
    """Return every possible key of an address in a server's response, the server's reading first.

    A server may return an address decoded, so that `x%20y` becomes `x y`. It also omits a query; only the store shows
    whether a key has a query.
    """
    found = address_readings(address, AddressType.FULL, namespace)
    encoded = [quote(key, safe=_UNESCAPED_IN_PATH, errors="surrogateescape") for key in found]
    return tuple(dict.fromkeys((*found, *encoded)))


def _readings(address: str, address_type: int, namespace: str) -> list[str | None]:
    if address_type == AddressType.RELATIVE:
        return [address]
    if address_type == AddressType.FULL:
        return _full_readings(address, namespace)
    if address_type != AddressType.BY_PREFIX_DEPRECATED:
        raise FormatError(f"address {address!r} has the unknown type {address_type}")
    match = _URI.match(address)
    if match is None:
        return [address]
    full = _full_readings(address, namespace)
    known = match[1].lower() in _KNOWN_TO_SERVER and _parses(match[2])
    return [*full, address] if known else [address, *full]


def _full_readings(address: str, namespace: str) -> list[str | None]:
    if wholes := _whole_namespaces(address, namespace):
        return [reading for whole in wholes for reading in _full_readings(address, whole)]
    scheme, rest = _split(address)
    literal = _inside(scheme, rest, namespace)
    if _PLAIN.fullmatch(rest) and "%" not in namespace:
        return [literal]  # there is nothing to decode, cut off or trim
    path = re.split("[?#]", rest, maxsplit=1)[0]
    if not _parses(rest):
        return [literal]
    decoded = unquote(path, errors="surrogateescape")
    whole = unquote(namespace, errors="surrogateescape")
    ways = ((_decoded_path(path), namespace), (decoded, whole))
    kept = [_inside(scheme, text, place) for text, place in ways]
    cut = [_inside(scheme, text.rstrip("/"), place) for text, place in ways]
    # On Azure a server decodes all and trims.
    return [cut[1], *kept, literal, cut[0]] if scheme == "https" else [*kept, literal, *cut]


def _whole_namespaces(address: str, namespace: str) -> list[str]:
    """Return the possible whole paths of `local://name`, from an address with a whole path."""
    (scheme, path), (namespace_scheme, root) = _split(address), _split(namespace)
    if not scheme == namespace_scheme == "file" or root.startswith("/") or not path.startswith("/"):
        return []
    name = root.rstrip("/")
    return [f"local://{path[: found.end()]}{name}" for found in re.finditer(f"/(?={re.escape(name)}/)", path)]


def _parses(rest: str) -> bool:
    return _BAD_ESCAPE.search(rest) is None and _CONTROL.search(rest) is None


def _split(uri: str) -> tuple[str, str]:
    match = _URI.match(uri)
    if match is None:
        return "", uri
    return served_parts(match[1], match[2])


def _inside(scheme: str, path: str, namespace: str) -> str | None:
    namespace_scheme, root = _split(namespace)
    prefix = root.rstrip("/") + "/"
    if scheme == namespace_scheme and path.startswith(prefix) and len(path) > len(prefix):
        return path[len(prefix) :]
    return None
