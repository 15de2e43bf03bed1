"""Keys that a store, a client or a format can represent exactly."""

import re

# Control characters (C0, DEL, C1), the line separators that XML 1.1 folds, and what XML 1.0 has no way to
# write. White space at either end: some servers strip it from an XML element, and would delete another
# object.
_NOT_FOR_XML = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]|^\\s|\\s$")
_ODD_SEGMENT = re.compile(r"(?:^|/)(?:\.{0,2})(?:/|$)")
_CONTROL = re.compile("[\x00-\x1f\x7f]")


def is_text(key: str) -> bool:
    """Whether a key is valid UTF-8 (a lone surrogate is not)."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_plain(key: str) -> bool:
    """Whether a key is in normal form as a path: no empty, `.` or `..` segment, no outer slash."""
    return _ODD_SEGMENT.search(key) is None


def is_client_safe(key: str) -> bool:
    """Whether obstore addresses exactly this key; it rewrites or refuses others."""
    return is_plain(key) and _CONTROL.search(key) is None


def is_xml_safe(key: str) -> bool:
    """Whether a key survives the XML of a bulk delete in every server's parser."""
    return _NOT_FOR_XML.search(key) is None


def in_range(key: str, start_after: str, stop_before: str) -> bool:
    """Whether start_after < key < stop_before in bytes of UTF-8 (= code points); "" is no bound."""
    return (not start_after or key > start_after) and (not stop_before or key < stop_before)


_CHARACTERS_MAX = 1024
# A backslash is a slash to some of the service's front ends, control characters are not allowed, and a segment that
# ends with a dot loses it on the way; HTTP libraries resolve `.` and `..` by themselves.
_AMBIGUOUS = re.compile("[\\\\\x00-\x1f\x7f-\x9f\ufffe\uffff]|\\.(?:/|$)")


def is_exact(name: str) -> bool:
    """Whether Azure addresses exactly the blob with this whole name.

    Source: "Naming and referencing containers, blobs, and metadata" of Azure's documentation.
    """
    return (
        0 < len(name.encode("utf-16-le", "surrogatepass")) // 2 <= _CHARACTERS_MAX
        and is_text(name)
        and _AMBIGUOUS.search(name) is None
    )


def is_s3_key(key: str) -> bool:
    """Whether S3 can be asked for exactly this key."""
    return bool(key) and is_text(key)
