"""Which storage namespaces a repository may have."""

from __future__ import annotations

import pytest

from lakefs_embedded.errors import InvalidValueError
from lakefs_embedded.refs.names import check_namespace


@pytest.mark.parametrize("uri", ["", "bucket/a", "s3://", "s3:// a", "s3://a\nb", "S3//a"])
def test_anything_else_is_refused(uri: str) -> None:
    with pytest.raises(InvalidValueError):
        check_namespace(uri)
