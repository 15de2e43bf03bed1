"""Requests to a store by kind, counted from its log as it grows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

LOG = "DREDGE_BENCH_STORE_LOG"
"""Names a variable with the path of the running store's log."""
FORMAT = "DREDGE_BENCH_LOG_FORMAT"
"""Names a variable that is set where the log's lines are in the common form, as those of emulators of clouds."""
SERVER_KEY = "AKIALAKEFS"
"""Of the lakeFS server, where requests of it can be told apart."""
_S3 = {
    "s3_GetObject": "get",
    "s3_HeadObject": "head",
    "s3_PutObject": "put",
    "s3_ListObjectsV2": "list",
    "s3_DeleteObjects": "bulk_delete",
    "s3_DeleteObject": "delete",
}
# Places in a line of an S3 log: owner, bucket, two of time, address, requester, id, operation.
_REQUESTER, _OPERATION = 5, 7
_COMMON = re.compile(rb'\S+ - - \[[^\]]+\] \\?"([A-Z]+) (\S+) HTTP')
_BATCHED = b'" - - ['
_CLOUD = (
    (re.compile(r"POST .*(?:/batch/|comp=batch)"), "bulk_delete"),
    (re.compile(r"GET .*(?:comp=list|/o\?)"), "list"),
    (re.compile(r"(?:HEAD |GET .*/o/[^?]*\?fields=)"), "head"),
    (re.compile(r"GET .*(?:/b/[^/]*\?|restype=)"), "bucket"),
    (re.compile(r"(?:POST .*/upload/|PUT )"), "put"),
)


class Requests:
    """Counts requests by kind.

    Args:
        log: of the store.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._at = 0
        self._rest = b""
        self._counts: Counter[str] = Counter()

    def counts(self) -> Counter[str]:
        """All requests that the store has answered so far; those of the lakeFS server begin with `lakefs`, where
        they can be told apart."""
        with self._log.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        self._at += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        self._counts.update(kind for kind in map(self._kind_of, lines) if kind)
        return Counter(self._counts)

    def _kind_of(self, line: bytes) -> str:
        """The kind of a request; "" for lines about none. Here: lines of an S3 server."""
        fields = line.split(b" ", _OPERATION + 1)
        if len(fields) <= _OPERATION or not fields[2].startswith(b"["):
            return ""
        name = fields[_OPERATION].decode()
        kind = _S3.get(name, name.removeprefix("s3_"))
        return f"lakefs {kind}" if fields[_REQUESTER] == SERVER_KEY.encode() else kind


class CloudRequests(Requests):
    """Counts requests to an emulator of Azure or Google Cloud Storage."""

    def _kind_of(self, line: bytes) -> str:
        """Parts of a batch have a line, too, in some emulators, but no address: they are no requests."""
        found = _COMMON.search(line)
        if found is None or _BATCHED in line:
            return ""
        words = f"{found[1].decode()} {found[2].decode()}"
        return next((kind for form, kind in _CLOUD if form.match(words)), found[1].decode().lower())


def requests_of(environ: Mapping[str, str]) -> Requests | None:
    """The counter of the store that an environment names; None for a folder."""
    if not environ.get(LOG):
        return None
    return (CloudRequests if environ.get(FORMAT) else Requests)(Path(environ[LOG]))
