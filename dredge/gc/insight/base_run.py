"""The analysed run: its listing, staging and history; listed objects beside the labels of their addresses.

All of it describes the same moment, so figures from it fit together; they are as old as the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from dredge.errors import ConfigError, DredgeError
from dredge.gc.config import CLEAN
from dredge.gc.index.ranges import Metaranges
from dredge.gc.list_committed import HISTORY, Graph, ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.referring import Referred
from dredge.gc.run import PLAN, RUNS, Plan, Run, open_state, parse_plan, read_plan
from dredge.gc.slice_listing import SliceListingOutput
from dredge.lakefs import Commit, Ref, Rules
from dredge.runs.folder import RunFolder, run_ids
from dredge.runs.payload import PartInfo, from_json
from dredge.sets.hashes import Hashes, read_hashes, shard_of
from dredge.sets.labels import Labelled, LabelledSets
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions, open_reader, open_writer
from dredge.storage.parallel import ordered_map

_AHEAD = 4
_LOOK_BACK = 200


class BaseRun(Struct):
    """The results of a run."""

    plan: Plan
    folder: RunFolder
    listing: SliceListingOutput
    staged: MarkUncommittedOutput
    committed: ListCommittedOutput
    reader: ObjectReader
    state: ObjectWriter  # the folder of lease and index; only read

    @property
    def text(self) -> str:
        """Its name in messages: "run c9… of 2026-01-02 03:04 UTC"."""
        return f"run {self.plan.run_id} of {self.plan.created_at:%Y-%m-%d %H:%M} UTC"

    @property
    def is_whole(self) -> bool:
        """Whether the run listed everything."""
        return self.plan.mode == CLEAN

    @property
    def rules(self) -> Rules | None:
        """The repository's rules at the time of the run."""
        found = self.committed.rules
        return None if found is None else from_json(Rules, found)

    def history(self) -> History:
        """Read the history."""
        return read_history(self.folder, self.committed)

    def referred(self) -> Iterator[Hashes]:
        """Hashes of the addresses that the run's `referring_repositories` use."""
        for item in self.committed.referring:
            for part in from_json(Referred, item).live.shards.values():
                yield read_hashes(self.folder, part)

    def referring_with(self, hashed: np.uint64) -> list[str]:
        """Names of the run's `referring_repositories` that use an address."""
        found = [from_json(Referred, item) for item in self.committed.referring]
        wanted = [np.array([hashed], np.uint64)]
        return [item.repository for item in found if item.live.find(self.folder, wanted)[0].any()]

    def unnamed_metaranges(self) -> list[str]:
        """Read the ids, in order, of the metaranges counted as active commits without an active commit."""
        unnamed = self.folder.read_part(self.committed.unnamed_metaranges)["metarange_id"]
        active = self.folder.read_part(self.committed.commits)["metarange_id"]
        return sorted({*unnamed.to_pylist()}.difference(active.to_pylist()))


@dataclass(slots=True)
class History:
    """Refs, commits and active commits of a run."""

    graph: Graph  # every commit reachable from refs
    branches: list[Ref]
    tags: list[Ref]
    # metarange id by commit id, of the active commits; those outside the graph are dangling
    active: dict[str, str]
    heads: set[str]  # ids of all branch heads seen during the run
    metaranges: Metaranges  # of the active commits, with their ranges
    unnamed: set[str]  # ids of the metaranges counted as active commits
    # rows of the active ranges, including ranges without a known commit
    ranges_table: pa.Table = field(repr=False)

    @property
    def dangling(self) -> set[str]:
        """Active commits without a ref."""
        return self.active.keys() - self.graph.keys() - self.heads

    def metarange_of(self, commit_id: str) -> str:
        """Metarange id of a commit; "" for an empty commit."""
        found = self.active.get(commit_id)
        return self.graph[commit_id].metarange_id if found is None else found


def read_history(folder: RunFolder, committed: ListCommittedOutput) -> History:
    """Read the history noted by a run."""
    folder.read_ahead(
        [
            committed.commits,
            committed.branches,
            committed.refs,
            committed.history,
            committed.named_ranges,
            committed.metaranges,
            committed.unnamed_metaranges,
            committed.ranges,
        ]
    )
    commits = folder.read_part(committed.commits)
    heads = folder.read_part(committed.branches)["commit_id"].to_pylist()
    refs = folder.read_part(committed.refs).to_pylist()
    named = {"branch": list[Ref](), "tag": list[Ref]()}
    for row in refs:
        named[row["kind"]].append(Ref(row["name"], row["commit_id"]))
    return History(
        graph=dict(_commits(folder.read_part(committed.history))),
        branches=named["branch"],
        tags=named["tag"],
        active=dict(zip(commits["commit_id"].to_pylist(), commits["metarange_id"].to_pylist(), strict=True)),
        heads={*heads, *(branch.commit_id for branch in named["branch"])},
        metaranges=Metaranges.from_tables(
            folder.read_part(committed.named_ranges), folder.read_part(committed.metaranges)
        ),
        unnamed=set(folder.read_part(committed.unnamed_metaranges)["metarange_id"].to_pylist()),
        ranges_table=folder.read_part(committed.ranges),
    )


def _commits(table: pa.Table) -> Iterator[tuple[str, Commit]]:
    columns = [
        table[name].to_pylist() for name in ("commit_id", "parents", "created_at", "metarange_id", "version")
    ]
    for commit_id, parents, created_at, metarange_id, version in zip(*columns, strict=True):
        yield commit_id, Commit(commit_id, tuple(parents), created_at, metarange_id, version)


def open_base(run_uri: str, options: StorageOptions | None = None) -> BaseRun:
    """Open a run by the URI of its folder. Raises ConfigError: no run at the URI, or a run without a complete mark."""
    plan = read_plan(run_uri.rstrip("/"), options)
    folder = RunFolder(open_writer(run_uri.rstrip("/"), options), plan.run_id)
    found = _open(folder, plan, options)
    if found is None:
        raise ConfigError(f"{run_uri} has no complete mark. Start a new run.")
    return found


def base_of_run(run: Run) -> BaseRun | None:
    """Use a run as the analysed run; None when its mark is incomplete."""
    return _open(run.folder, run.plan, run.options)


def find_base(
    root: str, repository: str, options: StorageOptions | None = None, whole: bool = True
) -> BaseRun | None:
    """Find the newest run of a repository with a complete mark, and with a complete listing if `whole`, below a
    storage namespace or run root."""
    for folder, plan in runs_below(root, options):
        if plan.repository != repository or (whole and plan.mode != CLEAN):
            continue
        try:
            found = _open(folder, plan, options)
        except DredgeError:
            continue
        if found is not None:
            return found
    return None


def runs_below(root: str, options: StorageOptions | None = None) -> Iterator[tuple[RunFolder, Plan]]:
    """Yield the newest runs below a storage namespace or run root with their plans, newest first; runs of other
    collectors and formats are left out."""
    place = root.rstrip("/")
    ids = run_ids(open_reader(place, options))
    if not ids:
        place = f"{place}/{RUNS}"
        ids = run_ids(open_reader(place, options))

    def opened(run_id: str) -> tuple[RunFolder, Plan] | None:
        folder = RunFolder(open_writer(f"{place}/{run_id}", options), run_id)
        try:
            return folder, parse_plan(folder.read_json(PLAN))
        except DredgeError:
            return None

    yield from filter(None, ordered_map(opened, ids[:_LOOK_BACK], _AHEAD))


def _open(folder: RunFolder, plan: Plan, options: StorageOptions | None) -> BaseRun | None:
    steps = (SliceListingOutput.STEP, MarkUncommittedOutput.STEP, ListCommittedOutput.STEP)
    found = folder.read_summaries(steps)
    listing, staged, committed = (found[step] for step in steps)
    if listing is None or staged is None or committed is None:
        return None
    if not committed.parts_below(f"{ListCommittedOutput.STEP}/{HISTORY}-"):
        return None
    return BaseRun(
        plan,
        folder,
        SliceListingOutput.of(listing),
        MarkUncommittedOutput.of(staged),
        ListCommittedOutput.of(committed),
        open_reader(plan.namespace, options),
        open_state(plan.namespace, options),
    )


class Amount(Struct):
    """A number of objects and bytes."""

    objects: int = 0
    size_bytes: int = 0

    def add(self, objects: int, size_bytes: int) -> None:
        """Add objects and bytes; negative numbers subtract."""
        self.objects += objects
        self.size_bytes += size_bytes


class Listed(Struct, frozen=True):
    """A part of the listed objects."""

    hashes: Hashes  # of their addresses, in any order
    sizes: npt.NDArray[np.int64]  # in bytes


def listed_shards(
    folder: RunFolder, parts: Sequence[PartInfo], sets: LabelledSets
) -> Iterator[tuple[Labelled, Listed]]:
    """Yield every listed object once, each with the labels of its shard.

    With one shard, parts of the listing are read one after the other; else they are first sorted into shards in a
    temporary folder, so that every file is read once.
    """
    if sets.bits == 0:
        ((_, labelled),) = sets.shards()
        yield from ((labelled, _read(folder, part)) for part in parts)
        return
    with TemporaryDirectory(prefix="dredge-listed-") as place:
        for number, part in enumerate(parts):
            _spill(Path(place), number, _read(folder, part), sets.bits)
        for shard, labelled in sets.shards():
            for path in sorted(Path(place).glob(f"{shard:04d}-*.npz")):
                with np.load(path) as arrays:
                    yield labelled, Listed(arrays["hashes"], arrays["sizes"])


def _read(folder: RunFolder, part: PartInfo) -> Listed:
    rows = folder.read_part(part, ["hash", "size"])
    return Listed(rows["hash"].to_numpy(), rows["size"].to_numpy())


def _spill(place: Path, number: int, listed: Listed, bits: int) -> None:
    shards = shard_of(listed.hashes, bits)
    for shard in np.unique(shards).tolist():
        here = shards == shard
        np.savez(
            place / f"{shard:04d}-{number:06d}.npz", hashes=listed.hashes[here], sizes=listed.sizes[here]
        )
