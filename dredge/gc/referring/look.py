"""One look at all referring repositories: what they name below the namespace that is collected, as of now.

    branch heads → staging → list of `_lakefs/` → range files

Staging before files, for the reason that holds for any repository: an entry moves from staging into a file (L1). The
heads come first: what branches do later is followed while objects are deleted (`bulk_delete.new_commits`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from dredge.errors import RefusedError
from dredge.gc.index.ranges import Ranges, table_of
from dredge.gc.list_committed import Roles, collect_ranges, known_commit
from dredge.gc.mark_uncommitted import StagedFiles
from dredge.gc.referring.files import find_ranges
from dredge.gc.referring.repositories import ReferringRun, find_referring, open_referring, refusing
from dredge.gc.referring.staged import read_staged
from dredge.gc.run import Run
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner
from dredge.sets.live import ShardedSet
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

_RANGES = "ranges"
_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Referred:
    """What a repository names below the namespace that is collected; a payload.

    Attributes:
        repository: its name.
        namespace: URI of its storage namespace.
        heads: metarange id by commit that was the head of a branch.
        branches: (name, commit) of each branch.
        addresses: files of staged addresses.
        ranges: rows of its ranges.
        live: hashes of everything.
    """

    repository: str
    namespace: str
    heads: dict[str, str]
    branches: list[tuple[str, str]]
    addresses: list[PartInfo]
    ranges: PartInfo
    live: ShardedSet


def look_at_referring(
    run: Run, runner: TaskRunner, where: str, note: Callable[[list[PartInfo]], None] = lambda _: None
) -> list[Referred]:
    """Read every repository that refers to this one.

    Args:
        run: the run.
        runner: spreads the reading of ranges.
        where: folder of the files, in the run folder.
        note: takes the files that were written.

    Raises:
        ConfigError: a repository is named that there is not.
        RefusedError: one of them cannot be read.
        UnavailableError: the server or a store does not answer.
    """
    if not run.plan.config.referring:
        return []
    namespaces = {found.name: found.namespace for found in run.client.repositories()}
    found = []
    for number, (name, uri) in enumerate(find_referring(run.plan.config, namespaces).items()):
        with refusing(name, run.plan.repository):
            item, parts = _look(open_referring(run, name, uri), runner, f"{where}/{number:05d}")
        note(parts)
        found.append(item)
        log.info(
            "run %s: repository %s names %d addresses below %s",
            run.plan.run_id,
            name,
            item.live.values,
            run.plan.namespace,
        )
    return found


def _look(run: ReferringRun, runner: TaskRunner, where: str) -> tuple[Referred, list[PartInfo]]:
    branches = run.client.branches(run.plan.repository)
    if not branches:
        raise RefusedError("lakeFS lists no branches of it; every repository has one.")
    files = StagedFiles(run.folder, where)
    read_staged(run, branches, files)
    commits = sorted({branch.commit_id for branch in branches})
    told = ordered_map(lambda item: _metarange_of(run, item), commits, _AT_ONCE)
    heads = dict(zip(commits, told, strict=True))
    ranges = find_ranges(run, runner, where, {item for item in heads.values() if item})
    collected = collect_ranges(run, runner, where, Roles(ranges), files.hashes)
    table = _write(run, where, ranges)
    referred = Referred(
        repository=run.plan.repository,
        namespace=run.plan.namespace,
        heads=heads,
        branches=[(branch.id, branch.commit_id) for branch in branches],
        addresses=files.addresses,
        ranges=table,
        live=collected.live,
    )
    return referred, [*files.parts, *collected.parts, table]


def _metarange_of(run: ReferringRun, commit_id: str) -> str:
    told = f"a branch is at commit {commit_id}, and lakeFS does not know it"
    return known_commit(run.client, run.plan.repository, commit_id, told).metarange_id


def _write(run: ReferringRun, where: str, ranges: Ranges) -> PartInfo:
    return run.folder.write_table(where, 0, table_of(ranges), _RANGES)
