"""Find deleted addresses in the live set of this mark.

hashes of all deletions ∩ live set of this mark        → without those of the last finished check
new deletions of the size of an entry of a branch head → branches are asked for their entries
    → rows of the ledgers → not in the store → exact address referenced, not only its hash
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import ConfigError, DredgeError, FormatError, NotFoundError, UnavailableError
from dredge.gc.check_limits import NO_ANSWER, CheckLimitsOutput, ask_about
from dredge.gc.index.ranges import Ranges, read_facts, read_leniently
from dredge.gc.index.store import Lookup, with_hashes
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.referring import Referred, open_referring
from dredge.gc.run import PLAN, Run
from dredge.gc.subtract import EXPIRED
from dredge.hashing import hash64
from dredge.lakefs.files.ranges import list_tables
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_json
from dredge.runs.run import StepRecord
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import NONE, Hashes, contains, unite
from dredge.storage import exists
from dredge.storage.parallel import ordered_map
from dredge.undo import deletions
from dredge.undo.deleted import SweptRun, swept_rows
from dredge.undo.deletions import Checked, Deletion

_AGAIN = f"{CheckLimitsOutput.STEP}/again"
_ROWS = pa.schema(
    [
        pa.field("address", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("etag", pa.string()),
        pa.field("hash", pa.uint64()),
        pa.field("reason", pa.string()),
        pa.field("outcome", pa.string()),
        pa.field("version_id", pa.string()),
        pa.field("done_by", pa.timestamp("us", tz="UTC")),
    ]
)


class Hits(Struct):
    """Deleted addresses of a run, live now and missing in the store."""

    deletion: Deletion
    rows: pa.Table  # from `swept_rows`; only address and hash without a readable ledger
    swept: SweptRun | None = None  # the run's ledger; None when unreadable
    # mask of `_unclaimed`
    unclaimed: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))


class Found(Struct):
    """The result of a search."""

    # by run, newest first; each address for the newest deletion of it
    hits: list[Hits] = field(default_factory=list)
    sweeps: set[str] = field(default_factory=set)  # run and try of each compared sweep
    # hashes of all live deleted addresses, also of existing ones
    live: Hashes = field(default_factory=lambda: NONE)
    compared: int = 0  # number of deleted addresses
    there: int = 0  # number of new ones that exist again
    same_hash: int = 0  # number of addresses with the hash of a live one, but another name
    asked: int = 0  # number of deleted objects that branches were asked about
    unanswered: int = 0  # number of paths without an answer
    unread: list[str] = field(default_factory=list)  # a message for each deletion that could not be compared


def find_hits(
    run: Run, runner: TaskRunner, record: StepRecord, checked: Checked, known: deletions.Deletions
) -> Found:
    """Find deleted objects, live in this mark and new since the last finished check."""
    found = Found(unread=list(known.unread.values()))
    todo = list(_compare(run, record, checked, known.found, found))
    todo = [_unseen(run, runner, record, checked, item, found) for item in todo]
    seen = NONE
    lookup = Lookup.of(run)
    for item in todo:  # the newest first
        hits = item.only(~contains(seen, item.hashes))
        seen = unite([seen, hits.hashes])
        if len(hits.hashes):
            found.hits += _missing(run, record, hits, lookup, found)
    return found


class _Todo(Struct):
    """The live and new hashes of a deletion. All hashes are sorted and distinct."""

    deletion: Deletion
    deletable: Hashes  # hashes of all candidates of the run
    hashes: Hashes
    served: Hashes = field(default_factory=lambda: NONE)  # those of `hashes` served by a branch

    def only(self, which: npt.NDArray[np.bool_]) -> _Todo:
        return replace(self, hashes=self.hashes[which])


def _compare(
    run: Run, record: StepRecord, checked: Checked, known: list[Deletion], found: Found
) -> Iterator[_Todo]:
    """Compare all deletions with the live set at once: it is read once."""
    wanted: list[Hashes] = []
    readable: list[Deletion] = []
    for deletion, hashes in zip(known, deletions.read_hashes(run.state, known), strict=True):
        if isinstance(hashes, str):
            found.unread.append(hashes)
            continue
        readable.append(deletion)
        wanted.append(hashes)
    live = record.input(ListCommittedOutput).live.find(wanted) if wanted else []
    alive = [hashes[mask] for hashes, mask in zip(wanted, live, strict=True)]
    found.live = unite(alive)
    found.sweeps = {deletion.sweep for deletion in readable}
    found.compared = sum(map(len, wanted))
    for deletion, deletable, hashes in zip(readable, wanted, alive, strict=True):
        is_new = deletion.sweep not in checked.sweeps
        yield _Todo(deletion, deletable, hashes if is_new else hashes[~contains(checked.live, hashes)])


def _unseen(
    run: Run, runner: TaskRunner, record: StepRecord, checked: Checked, item: _Todo, found: Found
) -> _Todo:
    """Add objects of a new deletion that branches serve, although no answer about staging has them."""
    if item.deletion.sweep in checked.sweeps or record.input(MarkUncommittedOutput).exact:
        return item
    from dredge.gc.undo import open_swept

    try:
        swept = open_swept(item.deletion.run_uri, options=run.options)
        rows = [swept.folder.read_part(part, ["hash", "size"]) for part in swept.candidates]
    except (ConfigError, FormatError, NotFoundError) as error:
        found.unread.append(
            f"run {item.deletion.run_id}: branches were not asked about its deletions: {error}"
        )
        return item
    if not rows:
        return item
    table = pa.concat_tables(rows)
    hashes, sizes = table["hash"].to_numpy(), table["size"].to_numpy().astype(np.uint64)
    wanted = contains(item.deletable, hashes) & ~contains(item.hashes, hashes)
    proof = ask_about(run, runner, record, hashes[wanted], sizes[wanted], f"{_AGAIN}/{item.deletion.run_id}")
    found.asked += proof.objects
    found.unanswered += len(proof.answers.unanswered)
    if NO_ANSWER in proof.answers.unanswered.values():
        found.sweeps.discard(item.deletion.sweep)  # the next mark asks again
    served = proof.answers.served
    found.live = unite([found.live, served])
    return replace(item, hashes=unite([item.hashes, served]), served=served)


def _missing(run: Run, record: StepRecord, item: _Todo, lookup: Lookup, found: Found) -> Iterator[Hits]:
    """The rows of live hashes missing in the store, with a reference to the exact address."""
    swept, rows = _rows(run, item, found)
    if swept is None:
        rows = _named_rows(run, record, item.hashes, lookup)
    addresses, threads = rows["address"].to_pylist(), run.plan.config.tuning.threads
    there = list(ordered_map(lambda address: exists(run.reader, address), addresses, threads))
    gone = rows.filter(pc.invert(pa.array(there, pa.bool_())))
    found.there += rows.num_rows - gone.num_rows
    if not gone.num_rows:
        return
    named = pa.array(_is_named(run, record, item, gone, lookup), pa.bool_())
    found.same_hash += gone.num_rows - (pc.sum(named).as_py() or 0)
    hits = gone.filter(named).combine_chunks()
    if hits.num_rows:
        yield Hits(item.deletion, hits, swept, _unclaimed(run, record, item, hits, swept, lookup))


def _rows(run: Run, item: _Todo, found: Found) -> tuple[SweptRun | None, pa.Table]:
    """The rows of the ledger with some hashes, without kept objects."""
    from dredge.gc.undo import open_swept

    try:
        swept = open_swept(item.deletion.run_uri, options=run.options)
        tables = [_ROWS.empty_table()]
        for part in swept.candidates:
            hashes = swept.folder.read_part(part, ["hash"])["hash"].to_numpy()
            if not contains(item.hashes, hashes).any():
                continue
            rows = swept_rows(swept.folder, part, swept.below)
            hit = pa.array(contains(item.hashes, rows["hash"].to_numpy()))
            tables.append(rows.filter(hit).select(_ROWS.names).cast(_ROWS))
    except (ConfigError, FormatError, NotFoundError) as error:
        found.unread.append(f"the ledger of run {item.deletion.run_id} cannot be read: {error}")
        return None, _ROWS.empty_table()
    return swept, pa.concat_tables(tables).combine_chunks()


def _named_rows(run: Run, record: StepRecord, hashes: Hashes, lookup: Lookup) -> pa.Table:
    """Rows from the current references to the hashes, without a ledger."""
    addresses = pc.unique(pa.concat_arrays(list(_names(run, record, hashes, lookup))))
    columns = {
        name: pa.nulls(len(addresses), kind.type) for name, kind in zip(_ROWS.names, _ROWS, strict=True)
    }
    columns |= {"address": addresses, "hash": pa.array(hash64(addresses), pa.uint64())}
    return pa.table(columns, schema=_ROWS)


def _is_named(run: Run, record: StepRecord, item: _Todo, rows: pa.Table, lookup: Lookup) -> list[bool]:
    """Whether each address is referenced exactly. With an unreadable range, all count as referenced."""
    hashes = rows["hash"].to_numpy()
    named = pc.unique(pa.concat_arrays(list(_names(run, record, unite([hashes]), lookup))))
    by_name = pc.is_in(rows["address"], named).to_numpy(zero_copy_only=False)
    served = contains(item.served, hashes)
    if lookup.unread:
        return [True] * rows.num_rows
    return list((by_name | served).tolist())


def _unclaimed(
    run: Run, record: StepRecord, item: _Todo, rows: pa.Table, swept: SweptRun | None, lookup: Lookup
) -> npt.NDArray[np.bool_]:
    """The mask of addresses in old range files only, such as those of a short-lived branch.

    Without rules all range files count as live. A run under rules was right to delete their objects: no active commit
    or metarange has these files even now. In doubt the mask is False.
    """
    committed = record.input(ListCommittedOutput)
    cutoff = None if swept is None or lookup.unread else _cutoff_under_rules(swept)
    if not committed.all_commits or cutoff is None:
        return np.zeros(rows.num_rows, bool)
    claimed = {*run.folder.read_part(committed.named_ranges, ["range_id"])["range_id"].to_pylist()}
    old = {name for name, info in list_tables(run.reader).items() if info.last_modified < cutoff} - claimed
    hashes = rows["hash"].to_numpy()
    named = pc.unique(pa.concat_arrays(list(_names(run, record, unite([hashes]), lookup, old))))
    by_name = pc.is_in(rows["address"], named).to_numpy(zero_copy_only=False)
    if lookup.unread:
        return np.zeros(rows.num_rows, bool)
    found: npt.NDArray[np.bool_] = ~(by_name | contains(item.served, hashes))
    return found


def _cutoff_under_rules(swept: SweptRun) -> datetime | None:
    """The cutoff of a run under rules; None without rules: such a run deleted no object of a range file."""
    try:
        committed = swept.folder.read_output(ListCommittedOutput)
        if committed is None or committed.all_commits:
            return None
        return datetime.fromisoformat(swept.folder.read_json(PLAN)["cutoff"])
    except (FormatError, NotFoundError, KeyError, ValueError):
        return None


def _names(
    run: Run, record: StepRecord, wanted: Hashes, lookup: Lookup, without: Collection[str] = ()
) -> Iterator[pa.StringArray]:
    """The exact addresses with some hashes in staging and in active ranges, without some ranges."""
    yield pa.nulls(0, pa.string())
    for rows in run.folder.read_parts(record.input(MarkUncommittedOutput).addresses, ["address"]):
        yield with_hashes(rows["address"], wanted)
    committed = record.input(ListCommittedOutput)
    ranges: Ranges = {}
    for part in (committed.ranges, committed.path_ranges):
        ranges.update(read_facts(run.folder.read_part(part)))
    for name in without:
        ranges.pop(name, None)
    yield lookup.addresses_in(lookup.ranges_with(ranges, wanted), wanted)
    for item in committed.referring:
        yield from _names_of(run, from_json(Referred, item), wanted, lookup)


def _names_of(run: Run, item: Referred, wanted: Hashes, lookup: Lookup) -> Iterator[pa.StringArray]:
    """The exact addresses with some hashes in a referring repository."""
    for rows in run.folder.read_parts(item.addresses, ["address"]):
        yield with_hashes(rows["address"], wanted)
    other = Lookup.of(open_referring(run, item.repository, item.namespace))
    ranges = dict(read_facts(run.folder.read_part(item.ranges)))
    yield other.addresses_in(other.ranges_with(ranges, wanted), wanted)
    lookup.unread |= other.unread


def explained(run: Run, hits: Hits) -> npt.NDArray[np.bool_]:
    """The mask of benign hits: an expired commit known to the deleting run had the address.

    A branch or a tag on an expired commit, a revert, and a longer rule bring back entries of expired commits. lakeFS
    allows them at any time, and the deletion was right. The reason `expired` proves it, but the deleting run read the
    ranges of the newest expired commits only, so for other reasons all its expired commits are read now. `unclaimed`
    explains a hit too, after the rules were removed.
    """
    rows = hits.rows
    by_reason = pc.fill_null(pc.equal(rows["reason"], EXPIRED), False)
    found: npt.NDArray[np.bool_] = by_reason.to_numpy(zero_copy_only=False).copy()
    if found.all() or hits.swept is None:
        return found
    others = unite([rows["hash"].to_numpy()[~found]])
    addresses = _named_by_expired(run, hits.swept.folder, others)
    named: npt.NDArray[np.bool_] = pc.is_in(rows["address"], addresses).to_numpy(zero_copy_only=False)
    found |= named | hits.unclaimed
    return found


def _named_by_expired(run: Run, folder: RunFolder, wanted: npt.NDArray[np.uint64]) -> pa.StringArray:
    """The addresses with some hashes in commits known to a run as expired. Unreadable files explain nothing."""
    nothing = pa.nulls(0, pa.string())
    try:
        committed = folder.read_output(ListCommittedOutput)
        if committed is None:
            return nothing
        history = folder.read_part(committed.history, ["commit_id", "metarange_id"])
        # Commits that the run knew without a ref, such as those of a deleted branch.
        carried = folder.read_part(committed.carried_commits, ["commit_id", "metarange_id"])
        active = folder.read_part(committed.commits, ["commit_id"])["commit_id"]
    except UnavailableError:
        raise
    except DredgeError:
        return nothing
    known = pa.concat_tables([history, carried.cast(history.schema)])
    expired = known.filter(pc.invert(pc.is_in(known["commit_id"], active.combine_chunks())))
    metaranges, _ = read_leniently(run.reader, sorted(filter(None, {*expired["metarange_id"].to_pylist()})))
    lookup = Lookup.of(run)
    return lookup.addresses_in(lookup.ranges_with(metaranges.ranges, wanted), wanted)
