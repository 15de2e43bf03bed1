"""Whether the store's ETags are hashes of the content, as lakeFS's checksums are."""

from __future__ import annotations

import random
import re

from dredge.errors import NotFoundError
from dredge.gc.context import Context
from dredge.gc.ranges import METADATA, facts_of
from dredge.graveler.addresses import AddressType
from dredge.graveler.committed.entries import Entry
from dredge.graveler.committed.values import Value
from dredge.graveler.sstable import RANGES, read_table
from dredge.runs.summary import StepSummary

_SAMPLE = 20
_MD5 = re.compile("^[0-9a-f]{32}$")


def etags_are_contents(context: Context, committed: StepSummary) -> bool:
    """Compare a few committed objects: their checksum in lakeFS with their ETag in the store.

    A store says whether its ETags are content hashes as a rule, but an encrypted bucket breaks the rule
    silently.

    Args:
        context: of the run.
        committed: the step that knows the ranges of branch heads.
    """
    if not context.reader.content_etag:
        return False
    table = context.folder.read_part(committed.part("committed/ranges-00000.parquet"))
    heads = [(facts.count, range_id) for range_id, facts in facts_of(table) if facts.head]
    if not heads:
        return True
    # Small ranges are quick to read; which of them does not matter.
    key = METADATA + random.Random(context.plan.run_id).choice(sorted(heads)[: len(heads) // 2 + 1])[1]
    records = read_table(context.reader.get(key), key, kind=RANGES).records
    entries = [Entry.decode(Value.decode(record.value, key).data, key) for record in records[:_SAMPLE]]
    return all(_agrees(context, entry) for entry in entries)


def _agrees(context: Context, entry: Entry) -> bool:
    if entry.address_type != AddressType.RELATIVE or not _MD5.match(entry.etag):
        return True
    try:
        etag = context.reader.stat(entry.address).etag or ""
    except NotFoundError:
        return True  # damage from before; the canaries speak of it
    return etag == entry.etag or not _MD5.match(etag)
