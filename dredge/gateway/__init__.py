"""The S3 gateway of the embedded lakeFS: a repository is a bucket, a key is `<branch or ref>/<path>`.

Start at `routes.py` (every operation), then `handlers/` (arguments in, shapes out). `sigv4.py`, `chunks.py`
and `checksums.py` see that a request and its body are what the client signed. What operations mean is not
decided here: handlers translate, graveler decides.
"""

from __future__ import annotations

from dredge.gateway.app import Gateway

__all__ = ["Gateway"]
