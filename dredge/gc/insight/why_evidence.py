"""Searches for the references to an object: in ranges and metaranges, in staging, and in the results of runs.

With the key-value store every staging record is read. Without it, branches are asked for their changes, within a limit
of requests; a staged copy of an object in the head is not found this way.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import DredgeError, NotFoundError
from dredge.gc.approve import ApproveOutput
from dredge.gc.bulk_delete import BulkDeleteOutput, why_kept
from dredge.gc.check_limits import HOLD_COLUMNS, CheckLimitsOutput, Holds, why_held
from dredge.gc.config import KEEP_UNNAMED_DAYS, MIN_AGE_HOURS
from dredge.gc.index.ranges import Metaranges, read_leniently
from dredge.gc.index.store import Lookup
from dredge.gc.insight.base_run import BaseRun, runs_below
from dredge.gc.insight.why_answer import Judged, StagedBy, Target, UnnamedBy
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Plan
from dredge.gc.subtract import REASONS, SubtractOutput
from dredge.gc.witness.mark import sort_out
from dredge.gc.witness.record import Past
from dredge.lakefs import LakeFSClient, Ref
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.lakefs.files.ranges import list_tables
from dredge.lakefs.files.sstable.columns import read_addresses
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.storage import ObjectReader, StorageOptions
from dredge.undo.ways import VERSIONS, way_back

_DECODED_MAX = 32


class Naming(Struct):
    """Searches for an address in commits."""

    target: Target
    hashed: np.uint64
    lookup: Lookup
    known: Metaranges
    unread: list[str] = field(default_factory=list)
    unread_ids: set[str] = field(default_factory=set)  # ids of unreadable metaranges and ranges

    @property
    def reader(self) -> ObjectReader:
        """The repository's store."""
        return self.lookup.reader

    def may_name(self, metaranges: Collection[str]) -> bool:
        """Whether an unreadable metarange or range may have the address."""
        known = [item for item in metaranges if item in self.known.named]
        return not self.unread_ids.isdisjoint([*metaranges, *self.known.select(known)])

    def ranges_of(self, metaranges: Collection[str]) -> dict[str, set[str]]:
        """The ranges with the address, by metarange id; other metaranges are left out."""
        more, errors = read_leniently(self.reader, self.known.lacking(metaranges))
        self.known.add(more)
        self._note("metarange", errors)
        there = [item for item in metaranges if item in self.known.named]
        rows_of = {item: row for row, item in enumerate(self.known.ranges)}
        wanted = self.known.select(there)
        found = self.lookup.ranges_with(wanted, np.array([self.hashed], np.uint64))
        self._note("range", self.lookup.unread)
        rows = np.array(sorted(rows_of[item] for item in found), np.int64)
        ids = list(self.known.ranges)
        naming = {item: np.intersect1d(self.known.named[item], rows) for item in there}
        return {item: {ids[row] for row in hit.tolist()} for item, hit in naming.items() if len(hit)}

    def paths_of(self, ranges: Collection[str]) -> dict[str, tuple[str, ...]]:
        """The paths of the address in ranges, up to a limit of ranges. A range without a path has another address with
        the same hash."""
        found: dict[str, tuple[str, ...]] = {}
        for item in list(ranges)[:_DECODED_MAX]:
            try:
                data = self.reader.get(METADATA + item)
                found[item] = tuple(dict.fromkeys(self._paths(data, METADATA + item)))
            except DredgeError as error:
                self.unread.append(f"range {item}: {error}")
        return found

    def _paths(self, data: bytes, name: str) -> Iterator[str]:
        rows = read_addresses(data, name, ("key", "address", "address_type"))
        relative = pc.equal(rows["address_type"], AddressType.RELATIVE)
        same = rows.filter(pc.and_(relative, pc.equal(rows["address"], self.target.address)))
        others = rows.filter(pc.invert(relative))
        columns = (others[column].to_pylist() for column in ("key", "address", "address_type"))
        keys = same["key"].to_pylist()
        for key, address, kind in zip(*columns, strict=True):
            if self.target.address in address_readings(address, kind, self.target.namespace):
                keys.append(key)
        yield from (key.decode("utf-8", "backslashreplace") for key in keys)

    def _note(self, kind: str, errors: Mapping[str, DredgeError]) -> None:
        new = {item: error for item, error in errors.items() if item not in self.unread_ids}
        self.unread += [f"{kind} {item}: {error}" for item, error in new.items()]
        self.unread_ids |= new.keys()


def named_by_unnamed(
    naming: Naming, base: BaseRun | None, named: Collection[str], active: Collection[str], now: datetime
) -> Iterator[UnnamedBy]:
    """Find the metaranges with an object that count as active commits without an active commit, by the settings of
    the newest run or the default ones."""
    config = None if base is None else base.plan.config
    age = timedelta(seconds=MIN_AGE_HOURS * 3600 if config is None else config.min_age_seconds)
    keep = timedelta(days=KEEP_UNNAMED_DAYS if config is None else config.keep_unnamed_days)
    namespace = naming.target.namespace
    past, files = Past.read(naming.lookup.state, namespace), list_tables(naming.reader)
    known = past.known({*named}, naming.known.ranges)
    since = past.since(now, keep)
    found = sort_out(naming.reader, naming.lookup.state, namespace, files, known, now - age, since)
    hits = naming.ranges_of(found.metaranges.difference(active))
    for metarange_id, ranges in sorted(hits.items()):
        paths = naming.paths_of(ranges)
        if all(item in paths and not paths[item] for item in ranges):
            continue  # another address with the same hash
        written_at = files[metarange_id].last_modified
        until = written_at + (keep if metarange_id in found.lost else age)
        there = tuple(dict.fromkeys(path for item in ranges for path in paths.get(item, ())))
        yield UnnamedBy(metarange_id, written_at, until if until > now else None, there)


def staged_in_kv(access: KVAccess, target: Target) -> list[StagedBy]:
    """Read every staging record of the repository."""
    with access.records(target.repository, target.namespace) as records:
        return [
            StagedBy(
                branch.name,
                path.decode("utf-8", "backslashreplace"),
                token,
                sealed=token in branch.sealed_tokens,
            )
            for branch in records.branches()
            for token in branch.tokens
            for path, keys in records.entries(token)
            if target.address in keys
        ]


def staged_by_server(
    client: LakeFSClient, target: Target, branches: Sequence[Ref], requests_max: int
) -> tuple[list[StagedBy], int]:
    """Ask branches for their changes, in order. Returns the branches with the object, and the number of branches
    without a complete answer."""
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


def _reads(client: LakeFSClient, target: Target, branch: str, path: str) -> bool:
    try:
        address = client.stat(target.repository, branch, path).address
    except NotFoundError:
        return False
    return target.address in address_readings(address, AddressType.FULL, target.namespace)


def last_judged(
    target: Target, hashed: int, root: str, options: StorageOptions | None = None, runs_max: int = 100
) -> tuple[Judged | None, list[str]]:
    """Find the newest run below a namespace or run root with an object among its candidates. Returns the result of
    the run; and the unread sources, as sentences."""
    unread: list[str] = []
    looked = 0
    for folder, plan in runs_below(root, options):
        if plan.repository != target.repository:
            continue
        if looked == runs_max:
            unread.append(f"runs older than {folder.run_id}")
            break
        looked += 1
        try:
            found = _judged(folder, target.address, hashed, plan, options)
        except DredgeError as error:
            unread.append(f"run {folder.run_id}: {error}")
            continue
        if found is not None:
            return found, unread
    return None, unread


def _judged(
    folder: RunFolder, address: str, hashed: int, plan: Plan, options: StorageOptions | None
) -> Judged | None:
    candidates = folder.read_output(SubtractOutput)
    if candidates is None:
        return None
    found = _row(folder, candidates.candidates, address, hashed)
    if found is None:
        return None
    part, row = found
    at = plan.created_at
    swept = folder.read_output(BulkDeleteOutput)
    if swept is not None and swept.is_settled:
        judged = _from_ledger(folder, swept, part, address, row["reason"][0].as_py())
        return None if judged is None else _restorable(judged, folder, plan, address, options)
    reason = row["reason"][0].as_py()
    hold = row["hold"][0].as_py() or ""
    guards = folder.read_output(CheckLimitsOutput)
    if guards is not None:
        hold = Holds.of(folder, guards.hold_files).codes_of(row)[0].as_py() or ""
    return Judged(folder.run_id, at, reason, "", hold, why_held(hold) if hold else REASONS[reason])


def _from_ledger(
    folder: RunFolder, swept: BulkDeleteOutput, part: PartInfo, address: str, reason: str
) -> Judged | None:
    rows = folder.read_part(swept.settled_of(part))
    rows = rows.filter(pc.equal(rows["address"], address))
    if not rows.num_rows:
        return None
    (row,) = rows.to_pylist()
    at = swept.summary.finished_at
    if row["outcome"] == ledger.KEPT:
        return Judged(folder.run_id, at, reason, ledger.KEPT, row["code"] or "", why_kept(row["code"] or ""))
    why = row["message"] or REASONS[reason]
    judged = Judged(folder.run_id, at, reason, row["outcome"], "", why, row["version_id"] or "")
    approved = folder.read_output(ApproveOutput)
    if approved is None:
        return judged
    said = approved.approval
    return replace(judged, approved_by=said["by"], approved_at=datetime.fromisoformat(said["at"]))


def _restorable(
    judged: Judged, folder: RunFolder, plan: Plan, address: str, options: StorageOptions | None
) -> Judged:
    if judged.outcome not in (ledger.DELETED, ledger.MISSING):
        return judged
    by_versions = plan.undo.way == VERSIONS
    way = way_back(plan.namespace, folder.uri, address, judged.version_id, options, by_versions)
    until = plan.undo.until(plan.created_at, plan.config.purge_days)
    return replace(judged, restorable=way, restorable_until=until)


def _row(
    folder: RunFolder, parts: Iterable[PartInfo], address: str, hashed: int
) -> tuple[PartInfo, pa.Table] | None:
    for part in parts:
        if not np.any(folder.read_part(part, ["hash"])["hash"].to_numpy() == np.uint64(hashed)):
            continue
        rows = folder.read_part(part, ["address", "reason", *HOLD_COLUMNS])
        rows = rows.filter(pc.equal(rows["address"], address))
        if rows.num_rows:
            return part, rows.slice(0, 1)
    return None
