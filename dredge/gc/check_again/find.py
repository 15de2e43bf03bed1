"""Find addresses that a run deleted and that are live now.

hashes of every deletion ∩ live set of this mark            → less what the last finished check found live already
new deletions of the size of an entry of a branch head      → branches are asked what they serve
    → rows of the ledgers → not in the store any more → named exactly, not only by hash
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, FormatError, NotFoundError
from dredge.gc.check_limits import CheckLimitsOutput, ask_about, codes
from dredge.gc.index.ranges import Ranges, read_facts
from dredge.gc.index.store import Lookup, with_hashes
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.referring import Referred, open_referring
from dredge.gc.run import PLAN, Run
from dredge.gc.undo import open_swept
from dredge.gc.witness.unnamed import list_tables
from dredge.hashing import hash64
from dredge.runs.payload import from_json
from dredge.runs.steps import StepRecord
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import NONE, Hashes, contains, unite
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


@dataclass(slots=True)
class Hits:
    """Deleted addresses of one run that are live now and not in the store.

    Attributes:
        deletion: the run that deleted them.
        rows: as `swept_rows` gives them; only address and hash where the ledger cannot be read.
        swept: the run's ledger; None when it cannot be read.
        unclaimed: of each row, whether only files name it of which no metarange that counts knows, and which were there
            when the run deleted: without rules every range file counts as live (`_unclaimed`).
    """

    deletion: Deletion
    rows: pa.Table
    swept: SweptRun | None = None
    unclaimed: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))


@dataclass(slots=True)
class Found:
    """What was found.

    Attributes:
        hits: by run, newest first; each address only for the newest run that deleted it.
        sweeps: run and try of each sweep whose deletions were compared.
        live: hashes of all deleted addresses that are live, also of those that exist again.
        compared: deleted addresses that were compared.
        there: new ones of them that exist again.
        same_hash: addresses that only share the hash of a live one.
        asked: deleted objects that branches were asked about.
        unanswered: those of them of which no answer tells.
        unread: a sentence for each deletion that could not be compared.
    """

    hits: list[Hits] = field(default_factory=list)
    sweeps: set[str] = field(default_factory=set)
    live: Hashes = field(default_factory=lambda: NONE)
    compared: int = 0
    there: int = 0
    same_hash: int = 0
    asked: int = 0
    unanswered: int = 0
    unread: list[str] = field(default_factory=list)


def find_hits(
    run: Run, runner: TaskRunner, record: StepRecord, checked: Checked, known: deletions.Deletions
) -> Found:
    """Find what runs deleted and what is live now, as far as the last finished check has not seen it.

    Args:
        run: this run.
        runner: spreads the search for paths of equal size.
        record: of check_limits; its inputs are the mark.
        checked: the last finished check.
        known: records of deletions.
    """
    found = Found(unread=list(known.unread.values()))
    todo = list(_compare(run, record, checked, known.found, found))
    todo = [_unseen(run, runner, record, checked, item, found) for item in todo]
    seen = NONE
    lookup = Lookup(run)
    for item in todo:  # the newest first
        hits = item.only(~contains(seen, item.hashes))
        seen = unite([seen, hits.hashes])
        if len(hits.hashes):
            found.hits += _missing(run, record, hits, lookup, found)
    return found


@dataclass(slots=True)
class _Todo:
    """Hashes of one deletion that are live and new.

    Attributes:
        deletion: the record.
        deletable: hashes of all that the run might delete, sorted and distinct.
        hashes: sorted and distinct.
        served: those of them that a branch was seen to serve.
    """

    deletion: Deletion
    deletable: Hashes
    hashes: Hashes
    served: Hashes = field(default_factory=lambda: NONE)

    def only(self, which: npt.NDArray[np.bool_]) -> _Todo:
        return replace(self, hashes=self.hashes[which])


def _compare(
    run: Run, record: StepRecord, checked: Checked, known: list[Deletion], found: Found
) -> Iterator[_Todo]:
    """Compare every deletion with the live set, all at once: the live set is read once."""
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
    """Add what branches serve of a new deletion although no answer about staging has it."""
    if item.deletion.sweep in checked.sweeps or record.input(MarkUncommittedOutput).exact:
        return item
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
    if codes.NO_ANSWER in proof.answers.unanswered.values():
        found.sweeps.discard(item.deletion.sweep)  # the next mark asks again
    served = proof.answers.served
    found.live = unite([found.live, served])
    return replace(item, hashes=unite([item.hashes, served]), served=served)


def _missing(run: Run, record: StepRecord, item: _Todo, lookup: Lookup, found: Found) -> Iterator[Hits]:
    """The rows of hashes that are live, not in the store, and named by their exact address."""
    swept, rows = _rows(run, item, found)
    if swept is None:
        rows = _named_rows(run, record, item.hashes, lookup)
    there = list(
        ordered_map(
            lambda address: _exists(run, address), rows["address"].to_pylist(), run.plan.config.tuning.threads
        )
    )
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
    """The ledger's rows of some hashes; what the ledger says has stayed is left out."""
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
    """Rows made of what names the hashes now, where there is no ledger that could name the addresses."""
    addresses = pc.unique(pa.concat_arrays(list(_names(run, record, hashes, lookup))))
    columns = {
        name: pa.nulls(len(addresses), kind.type) for name, kind in zip(_ROWS.names, _ROWS, strict=True)
    }
    columns |= {"address": addresses, "hash": pa.array(hash64(addresses), pa.uint64())}
    return pa.table(columns, schema=_ROWS)


def _exists(run: Run, address: str) -> bool:
    try:
        run.reader.stat(address)
    except NotFoundError:
        return False
    return True


def _is_named(run: Run, record: StepRecord, item: _Todo, rows: pa.Table, lookup: Lookup) -> list[bool]:
    """Whether something live names each address itself. In doubt it does: a range that cannot be read may."""
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
    """Whether nothing names an address but old range files, such as of a commit of a branch that no run saw.

    Without rules such files count as live, whatever names them. A run under rules was right to delete what they name:
    neither a commit nor a metarange that counts as one leads to them, not even now. In doubt it is not so.
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
    """The cutoff of a run under rules; None of one without, which took no object that a range file named."""
    try:
        summary = swept.folder.read_summary(ListCommittedOutput.STEP)
        if summary is None or ListCommittedOutput.of(summary).all_commits:
            return None
        return datetime.fromisoformat(swept.folder.read_json(PLAN)["cutoff"])
    except (FormatError, NotFoundError, KeyError, ValueError):
        return None


def _names(
    run: Run, record: StepRecord, wanted: Hashes, lookup: Lookup, without: Collection[str] = ()
) -> Iterator[pa.StringArray]:
    """The addresses with some hashes that staging and active ranges name, exactly as they name them; some ranges may be
    left out."""
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
    """The addresses with some hashes that another repository names, which refers to this one."""
    for rows in run.folder.read_parts(item.addresses, ["address"]):
        yield with_hashes(rows["address"], wanted)
    other = Lookup(open_referring(run, item.repository, item.namespace))
    ranges = dict(read_facts(run.folder.read_part(item.ranges)))
    yield other.addresses_in(other.ranges_with(ranges, wanted), wanted)
    lookup.unread |= other.unread
