"""Records of pull requests, as a real server writes them; the embedded one has none.

    <repository partition>   pulls/<id>                                        PullRequestData
    pulls                    repos/<repository partition>/<source>/<dest>      SecondaryIndex: id of the open one

Source: lakeFS pkg/catalog/catalog.go (pull requests; behaviour only); rows of a real server in tests/fixtures/kv.
"""

from datetime import datetime

from dredge.errors import ConflictError
from dredge.lakefs.files import messages
from lakefs_embedded.kv import Store
from tests.support.kv_world import countdown_id

INDEX_PARTITION = b"pulls"


def open_pull(kv: Store, partition: bytes, source: str, destination: str, now: datetime) -> str:
    """Write the record of a pull request, then its index entry; the entry decides about the open one."""
    record = messages.PullRequestData(
        id=countdown_id(now),
        status=messages.PullRequestStatus.OPEN,
        created_at=messages.to_timestamp(now),
        title="t",
        author="user",
        source_branch=source,
        destination_branch=destination,
    )
    kv.set(partition, _key(record.id), messages.encode(record))
    try:
        kv.set_if(INDEX_PARTITION, _index_key(partition, record), _entry(record), None)
    except ConflictError:
        kv.delete(partition, _key(record.id))
        raise
    return record.id


def close_pull(kv: Store, partition: bytes, pull_id: str, now: datetime) -> None:
    raw = kv.get(partition, _key(pull_id))
    record = messages.decode(messages.PullRequestData, raw, "pull request")
    record.status = messages.PullRequestStatus.CLOSED
    record.closed_at.CopyFrom(messages.to_timestamp(now))
    kv.set_if(partition, _key(pull_id), messages.encode(record), raw)
    kv.delete_if(INDEX_PARTITION, _index_key(partition, record), _entry(record))


def _key(pull_id: str) -> bytes:
    return b"pulls/" + pull_id.encode()


def _index_key(partition: bytes, record: messages.PullRequestData) -> bytes:
    return b"repos/" + partition + f"/{record.source_branch}/{record.destination_branch}".encode()


def _entry(record: messages.PullRequestData) -> bytes:
    return messages.encode(messages.SecondaryIndex(primary_key=record.id.encode()))
