"""Rules for names of repositories, branches, tags and paths."""

from __future__ import annotations

import re

from lakefs_embedded.errors import InvalidRefError, InvalidValueError

PATH_BYTES_MAX = 1024

_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_BRANCH = re.compile(r"[0-9A-Za-z_][-0-9A-Za-z_]*")
# Git's rules for one component of a ref name.
_TAG_BAD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\/$]|\.\.|@\{|^\.|\.$|\.lock$|^@$|^-")
_COMMIT = re.compile(r"[0-9a-f]{64}")
# A folder of a local store may have spaces in its path.
_NAMESPACE = re.compile(r"[a-z][a-z0-9+.-]*://[^\s][^\x00-\x1f\x7f]*")


def check_repository(name: str) -> None:
    """Refuse a malformed repository name."""
    if not _REPOSITORY.fullmatch(name):
        raise InvalidValueError("repository id: invalid value: validation error")


def check_branch(name: str) -> None:
    """Refuse a malformed branch name. Names contain neither "/" nor ":": staging tokens need this."""
    if not _BRANCH.fullmatch(name):
        raise InvalidValueError("branch id: invalid value: validation error")


def check_tag(name: str) -> None:
    """Refuse a malformed tag name."""
    if not name or _TAG_BAD.search(name):
        raise InvalidValueError("tag id: invalid value: validation error")


def check_ref(text: str) -> None:
    """Refuse an empty ref expression, or one with white space."""
    if not text or any(char.isspace() for char in text):
        raise InvalidRefError


def check_path(path: str) -> bytes:
    """Refuse an empty or overlong path. Returns it as UTF-8 bytes."""
    raw = path.encode("utf-8", "surrogateescape")
    if not 1 <= len(raw) <= PATH_BYTES_MAX:
        raise InvalidValueError("argument path: required value: validation error")
    return raw


def check_namespace(uri: str) -> None:
    """Refuse a storage namespace without a URI scheme."""
    if not _NAMESPACE.fullmatch(uri):
        raise InvalidValueError(f"argument storage namespace: {uri!r} is not a URI: invalid value")


def is_commit_id(text: str) -> bool:
    """Whether a string has the form of a full commit id."""
    return _COMMIT.fullmatch(text) is not None
