"""Repositories at the root of a bucket, as releases before 2.1 made them."""

import pytest

from dredge.errors import NotFoundError, RefusedError
from dredge.icechunk.repository import spec_version
from dredge.storage import open_reader
from tests.support.objectstore import moto_s3


@pytest.mark.parametrize("key", ["/repo", "/refs/branch.main/ref.json"])
@pytest.mark.parametrize("end", ["", "/"])
def test_keys_that_begin_with_a_slash_are_refused(key: str, end: str) -> None:
    with moto_s3() as bucket:
        bucket.put(key)
        with pytest.raises(RefusedError):
            spec_version(open_reader(bucket.uri + end, bucket.options))


def test_an_empty_bucket_holds_no_repository() -> None:
    with moto_s3() as bucket, pytest.raises(NotFoundError):
        spec_version(open_reader(bucket.uri, bucket.options))
