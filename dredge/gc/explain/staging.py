"""Which branches have an object staged.

With the key-value store every staging record is read. Without it, branches are asked for what they changed, as far as a
number of requests goes; a staged copy of what a head has is not shown that way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dredge.errors import NotFoundError
from dredge.gc.analysis.kv_records import repository_record
from dredge.gc.explain.answer import StagedBy
from dredge.gc.explain.target import Target
from dredge.gc.mark_uncommitted import KVAccess
from dredge.kv.rows import RowView, show_key
from dredge.lakefs import LakeFS, Ref
from dredge.lakefs.files import messages
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.lakefs.files.records import Branch

_BRANCHES = b"branches/"


def staged_in_kv(access: KVAccess, target: Target) -> list[StagedBy]:
    """Read every staging record of the repository.

    Raises:
        RefusedError: it is not the store of this repository.
        FormatError: a record cannot be read.
    """
    with access.open() as store, store.view() as view:
        record = repository_record(view, store.location, target.repository, target.namespace)
        return list(_named(view, record.partition, target))


def _named(view: RowView, partition: bytes, target: Target) -> Iterator[StagedBy]:
    for entry in view.scan(partition, _BRANCHES):
        if not entry.key.startswith(_BRANCHES):
            return
        branch = Branch.decode(entry.value)
        for token in branch.tokens:
            for row in view.scan(token.encode()):
                if _names(row.value, show_key(token.encode(), row.key), target):
                    path = row.key.decode("utf-8", "backslashreplace")
                    yield StagedBy(branch.name, path, token, sealed=token in branch.sealed_tokens)


def _names(value: bytes, name: str, target: Target) -> bool:
    name_bytes = target.address.rpartition("/")[2].encode()
    if name_bytes.isalnum() and name_bytes not in value:
        return False  # most records, without decoding them: a plain name is written in one way only
    record = messages.decode(messages.StagedEntryData, value, name)
    if not record.identity:
        return False  # a tombstone
    entry = messages.decode(messages.Entry, record.data, name)
    return target.address in address_readings(entry.address, entry.address_type, target.namespace)


def staged_by_server(
    client: LakeFS, target: Target, branches: Sequence[Ref], requests_max: int
) -> tuple[list[StagedBy], int]:
    """Ask branches what they changed.

    Args:
        client: the server.
        target: the object.
        branches: the one that was asked about first.
        requests_max: requests to make at most.

    Returns:
        What was found, and how many branches were not, or not wholly, asked.
    """
    found: list[StagedBy] = []
    left = requests_max
    for number, branch in enumerate(branches):
        if left < 1:
            return found, len(branches) - number
        left -= 1
        try:
            changes = client.changes(target.repository, branch.id, amount=1000)
        except NotFoundError:
            continue
        paths = [change.path for change in changes if change.type != "removed"]
        for path in paths[:left]:
            if _reads(client, target, branch.id, path):
                found.append(StagedBy(branch.id, path))
        if len(paths) > left or len(changes) == 1000:
            return found, len(branches) - number
        left -= len(paths)
    return found, 0


def _reads(client: LakeFS, target: Target, branch: str, path: str) -> bool:
    try:
        address = client.stat(target.repository, branch, path).address
    except NotFoundError:
        return False
    return target.address in address_readings(address, AddressType.FULL, target.namespace)
