"""Requests to an emulator of Azure or Google Cloud Storage, counted from its growing log."""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from benchmarks.s3_store import LOG, Requests, name_place

FORMAT = "DREDGE_BENCH_LOG_FORMAT"
"""Environment variable that is set if the log has the common log format, as of these emulators."""
_COMMON = re.compile(r'\S+ - - \[[^\]]+\] \\?"([A-Z]+) (\S+) HTTP')
_BATCHED = '" - - ['
_KINDS = (
    (re.compile(r"POST .*(?:/batch/|comp=batch)"), "bulk_delete"),
    (re.compile(r"GET .*(?:comp=list|/o\?)"), "list"),
    (re.compile(r"(?:HEAD |GET .*/o/[^?]*\?fields=)"), "head"),
    (re.compile(r"GET .*(?:/b/[^/]*\?|restype=)"), "bucket"),
    (re.compile(r"(?:POST .*/upload/|PUT )"), "put"),
)
_KEY = re.compile(r"^/(?:storage/v1/b/[^/]+/o/|[^/]+/[^/]+/)(.+)$")


class CloudRequests(Requests):
    """Counts requests by kind, with those of the lakeFS server."""

    def _told(self, line: str) -> tuple[str, str] | None:
        """Ignore parts of a batch, which some emulators log without an address."""
        found = _COMMON.search(line)
        if found is None or _BATCHED in line:
            return None
        method, target = found[1], found[2]
        kinds = (kind for form, kind in _KINDS if form.match(f"{method} {target}"))
        return next(kinds, method.lower()), _asked_for(target)


def _asked_for(target: str) -> str:
    """Return the object of a request, or the prefix of a listing."""
    parts = urlsplit(target)
    prefix = parse_qs(parts.query).get("prefix")
    key = _KEY.match(unquote(parts.path))
    if prefix:
        return name_place(prefix[0])
    return name_place(key[1]) if key and not parts.path.startswith(("/upload/", "/batch/")) else "bucket"


def open_requests(environ: Mapping[str, str]) -> Requests | None:
    """Return the counter of the environment's store; None for a folder."""
    if not environ.get(LOG):
        return None
    return (CloudRequests if environ.get(FORMAT) else Requests)(Path(environ[LOG]))
