"""Partitions and keys by the shape of their names.

    graveler                       repos/<repository>
    <repository>-<xid>             branches/… commits/… tags/… settings/… imports/… tasks/… pulls/…
                                   repo-metadata copies/… (the embedded server's profile `design`)
    <repository>-<branch>:<uuid4>  a staging token: <path>
    cleanup-tokens                 <staging token>: queued for dropping
    graveler_deleted               repo/<repository>/<xid>: handed to the cleaner (the design's step 2)
    pulls · catalog · actions · multiparts · mc-ownership · auth · basicAuth · usage · kv-internal-metadata

A shape proves little: `a-b` with branch `c` and `a` with branch `b-c` have the same token. So records decide first.
Names of other shapes are never touched.

Source: L62 of docs/lakefs-behaviour.md.
"""

import re
from datetime import UTC, datetime

from msgspec import Struct

from dredge import xid

REPOSITORIES = b"graveler"
DELETED = b"graveler_deleted"
MARKERS = b"cleanup-tokens"
PULLS = b"pulls"
INSTANCES = b"catalog"
ACTIONS = b"actions"
OWNERS = b"mc-ownership"
MULTIPARTS = b"multiparts"
METADATA = b"kv-internal-metadata"
SCHEMA_VERSION_KEY = b"kv/schema/version"
SCHEMA_VERSION = b"4"

OTHERS = frozenset({b"auth", b"basicAuth", METADATA, b"usage"})
# Partitions whose rows are classified one by one.
SMALL = (MARKERS, PULLS, INSTANCES, ACTIONS, OWNERS, MULTIPARTS, DELETED)

REPOSITORY_PREFIX = b"repos/"
BRANCH_PREFIX = b"branches/"
COMMIT_PREFIX = b"commits/"
TAG_PREFIX = b"tags/"
OTHER_KEYS = (b"settings/", b"imports/", b"tasks/", b"pulls/", b"copies/")
REPOSITORY_METADATA_KEY = b"repo-metadata"

_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9-]{2,62}", re.ASCII)
_TOKEN = re.compile(
    r"[a-z0-9][a-z0-9-]{2,62}-[\w-]+:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII
)
# Ids of action runs and pull requests count down to this Unix time; those of slices and GC runs to another.
_COUNTDOWN_END = 32_500_915_200
_WRAP = 1 << 32


class Instance(Struct, frozen=True):
    """One life of a repository name."""

    repository: str
    uid: str
    created: datetime

    @property
    def partition(self) -> bytes:
        """The partition of its records."""
        return f"{self.repository}-{self.uid}".encode()


def parse_instance(partition: bytes) -> Instance | None:
    """Read `<repository>-<xid>`; None for another shape."""
    text = _text(partition)
    if text is None:
        return None
    repository, dash, uid = text[: -xid.LENGTH - 1], text[-xid.LENGTH - 1 : -xid.LENGTH], text[-xid.LENGTH :]
    if dash != "-" or not xid.is_xid(uid) or not _REPOSITORY.fullmatch(repository):
        return None
    return Instance(repository, uid, xid.ascending_time(uid))


def deleted_instance(key: bytes) -> Instance | None:
    """Read a key of `DELETED`, `repo/<repository>/<xid>`; None for another shape."""
    parts = key.split(b"/")
    found = parse_instance(b"-".join(parts[1:])) if len(parts) == 3 and parts[0] == b"repo" else None
    return found if found and found.uid.encode() == parts[2] else None


def is_token(partition: bytes) -> bool:
    """Whether a partition has the shape of a branch's staging token."""
    text = _text(partition)
    # A caller of lakeFS's plumbing API owns `import-ingest_range:…`; no record references it.
    return text is not None and bool(_TOKEN.fullmatch(text)) and not text.startswith("import-ingest_range:")


def possible_branches(token: bytes) -> list[tuple[str, str]]:
    """Every (repository, branch) whose staging token can have this text."""
    text = _text(token)
    if text is None:
        return []
    names = text.rpartition(":")[0]
    return [(names[:cut], names[cut + 1 :]) for cut, char in enumerate(names) if char == "-"]


def first_part(key: bytes) -> str:
    """Family of a key in a repository's partition: the text before the first "/"."""
    return key.partition(b"/")[0].decode("utf-8", "backslashreplace")


def tail(key: bytes, prefix: bytes) -> str:
    """The text after a prefix; bytes that are not UTF-8 become surrogates."""
    return key[len(prefix) :].decode("utf-8", "surrogateescape")


def countdown_time(text: str) -> datetime | None:
    """Creation time of an action run or a pull request, from its id; None for another id."""
    if not xid.is_xid(text):
        return None
    left = int(xid.ascending_time(text).timestamp())
    return datetime.fromtimestamp((_COUNTDOWN_END - left) % _WRAP, UTC)


def _text(name: bytes) -> str | None:
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        return None
