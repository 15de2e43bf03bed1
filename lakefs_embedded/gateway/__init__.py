"""The S3 gateway of the embedded lakeFS: a repository is a bucket, a key is `<branch or ref>/<path>`.

Start at `app.py` (every operation), then `handlers/`. `sigv4.py`, `payload.py` and `checksums.py` verify the
signatures of requests and bodies. Handlers only translate between S3 and the catalog.
"""

from lakefs_embedded.gateway.app import Gateway

__all__ = ["Gateway"]
