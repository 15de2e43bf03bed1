"""Names that stand where a bucket's name does, but are none that a collection can work on.

Source: Amazon S3 User Guide, "Directory bucket naming rules", "Access point aliases", "Object Lambda Access Points",
"Multi-Region Access Points", and ListObjectsV2 ("For directory buckets, ... results are not returned in lexicographical
order").
"""

from __future__ import annotations

from dredge.errors import ConfigError

_REFUSED = {
    "--x-s3": (
        "a directory bucket (S3 Express One Zone) lists objects in no order, so that no listing of it can be proved"
        " complete, and keeps no versions; lakeFS does not run on one either"
    ),
    "--ol-s3": "an Object Lambda access point shows objects other than they are stored",
    ".mrap": "a Multi-Region Access Point answers from whichever region is near, before the others have caught up",
}


def check_bucket(bucket: str) -> None:
    """Refuse what is no general purpose bucket, nor an access point's alias of one.

    Raises:
        ConfigError: before anything was asked of the store.
    """
    if bucket.startswith("arn:"):
        raise ConfigError(
            f"s3://{bucket}: an ARN is no bucket name in a URI; use the alias of the access point (…-s3alias). Nothing"
            " was touched."
        )
    for ending, why in _REFUSED.items():
        if bucket.endswith(ending):
            raise ConfigError(f"s3://{bucket}: {why}. Nothing was touched.")
