"""Which repositories refer to this one, and how a run reads one of them.

What the branches of a referring repository have staged, as keys of the namespace that is collected.

lakeFS's scan of staging shows no address outside the scanned repository's namespace, so it tells nothing here. The
staging records of the key-value store have everything. Where they are not read, or prove nothing, each branch is asked
for its changes, and each changed path for its address.

The range files of a referring repository. What each is, is read once: the index remembers ranges, and a file beside
it the names of all others.

    <state>/referring/<repository>/index/…
    <state>/referring/<repository>/others.parquet      name: metaranges and refs dumps that were opened

One look at all referring repositories: what they name below the namespace that is collected, as of now.

    branch heads → staging → list of `_lakefs/` → range files

Staging before files, for the reason that holds for any repository: an entry moves from staging into a file (L1). The
heads come first: what branches do later is followed while objects are deleted (`bulk_delete.new_commits`).

The lines of a preflight about other repositories: whether those that the settings name can be read, and whether any
other one refers to this repository, as far as a few requests tell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from dredge.errors import (
    ConfigError,
    DefectError,
    DredgeError,
    LeaseHeldError,
    OvertakenError,
    RefusedError,
    UnavailableError,
)
from dredge.gc.config import EVERY_OTHER, GCConfig
from dredge.gc.index.ranges import RangeFacts, Ranges, read_ranges, table_of
from dredge.gc.index.store import CommittedIndex
from dredge.gc.list_committed import Roles, collect_ranges, known_commit
from dredge.gc.mark_uncommitted import (
    BranchReader,
    StagedFiles,
    TooManyError,
    UnreadableError,
    read_records,
)
from dredge.gc.namespaces import METADATA, Keys
from dredge.gc.run import Run
from dredge.gc.witness.unnamed import kind_of, list_tables, open_table
from dredge.lakefs import LakeFS, Ref, Repository
from dredge.lakefs.files.addresses import answer_readings
from dredge.lakefs.files.sstable import RANGES
from dredge.runs.parts import parquet_bytes, read_parquet
from dredge.runs.preflight import Line, line_of, ok
from dredge.runs.rendering import number_of
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import NONE
from dredge.sets.live import ShardedSet
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

FOLDER = "referring"
"""What is remembered of such repositories, a folder for each, relative to the folder of lease and index."""


@dataclass(slots=True)
class ReferringRun(Run):
    """A run as it reads another repository: plan, reader and index are about that one, and the keys that are looked for
    are those of the repository that is collected. It has no lease of its own and does no step."""

    into: str = ""

    @property
    def keys(self) -> Keys:
        """Which keys are looked for in the repository's entries."""
        return Keys(namespace=self.into, own=False)


def find_referring(config: GCConfig, namespaces: Mapping[str, str]) -> dict[str, str]:
    """Find the repositories whose entries count as live.

    Args:
        config: of the run.
        namespaces: URI by repository, all of the server.

    Returns:
        URI of the storage namespace by repository.

    Raises:
        ConfigError: a repository is named that the server does not list.
    """
    others = {name: uri for name, uri in sorted(namespaces.items()) if name != config.repository}
    if EVERY_OTHER in config.referring:
        return others
    wanted = config.referring - {config.repository}
    if missing := sorted(wanted - others.keys()):
        raise ConfigError(
            f"referring_repositories names {', '.join(missing)}, which the server does not list. Their entries may name"
            f" objects of {config.repository}. Nothing (more) was deleted. Mend the name, or take it away if the"
            " repository was deleted."
        )
    return {name: uri for name, uri in others.items() if name in wanted}


def open_referring(run: Run, name: str, namespace: str) -> ReferringRun:
    """Open another repository for a run.

    Args:
        run: the run.
        name: of the other repository.
        namespace: URI of its storage namespace.
    """
    config = replace(
        run.plan.config, repository=name, referring_repositories=None, policy=None, keep_tags=False
    )
    return ReferringRun(
        plan=replace(run.plan, repository=name, namespace=namespace, config=config),
        folder=run.folder,
        reader=open_reader(namespace, run.options),
        state=open_writer(f"{run.state.uri}/{FOLDER}/{name}", run.options),
        clock=run.clock,
        options=run.options,
        _client=run.client,
        into=run.plan.namespace,
    )


@contextmanager
def refusing(name: str, repository: str) -> Iterator[None]:
    """Say of an error which repository it is about, and that nothing was deleted for want of it.

    Args:
        name: of the repository that is read.
        repository: that is collected.
    """
    about = f"repository {name}, one of referring_repositories, cannot be read"
    try:
        yield
    except (DefectError, LeaseHeldError, OvertakenError):
        raise  # about this run
    except UnavailableError as error:
        raise UnavailableError(f"{about}: {error}") from error
    except DredgeError as error:
        raise RefusedError(
            f"{about}: {error} Its entries may name objects of {repository}, so nothing (more) was deleted. Mend that,"
            " or take it off referring_repositories."
        ) from error


_QUESTIONS_AT_ONCE = 16


def read_staged(run: ReferringRun, branches: Collection[Ref], files: StagedFiles) -> None:
    """Read everything that is staged and lies in the namespace that is collected.

    Args:
        run: on the referring repository.
        branches: of it.
        files: takes the addresses.

    Raises:
        RefusedError: the changes of a branch cannot be read to their end, or are too many to ask for.
    """
    if run.plan.config.read_kv and not read_records(run, files, NONE).standing.doubt:
        return
    most = run.plan.config.safety.staged_questions_max
    reader = BranchReader(run, NONE)
    reader.bound(most)
    try:
        with ThreadPoolExecutor(_QUESTIONS_AT_ONCE) as pool:
            for branch in branches:
                reader.take_all(pool, branch.id, "")
    except UnreadableError as error:
        raise RefusedError(f"{error}.") from None
    except TooManyError:
        raise RefusedError(
            f"its branches have more uncommitted changes than {most:,} questions tell about. Commit them, raise"
            " staged_questions_max, or name lakeFS's own key-value store (kv_conn_id)."
        ) from None
    if reader.addresses:
        files.write(pa.array(sorted(reader.addresses), pa.string()))


_OTHERS = "others.parquet"
_AT_ONCE = 16


def find_ranges(run: ReferringRun, runner: TaskRunner, where: str, metaranges: Collection[str]) -> Ranges:
    """Find every range file in the namespace of a referring repository, whatever names it.

    Args:
        run: on the referring repository; its staging has been read.
        runner: spreads the reading of metaranges.
        where: folder for files and progress, in the run folder.
        metaranges: ids of those of the branch heads, seen before now.

    Raises:
        RefusedError: a file that a branch head needs is not there.
        FormatError: a file cannot be read.
    """
    files = list_tables(run.reader)
    heads = read_ranges(run, runner, f"{where}/heads", metaranges)
    if missing := sorted({*heads, *metaranges} - files.keys()):
        raise RefusedError(f"{METADATA}{missing[0]}, which a branch needs, is not in {run.reader.uri}.")
    index = CommittedIndex.load(run.state, run.keys.namespace)
    others = _read_others(run)
    ranges: Ranges = {}
    unknown = []
    for name, info in files.items():
        if index.part_of(name) is not None:
            ranges[name] = RangeFacts(index.places[name][1], b"", b"")
        elif name in heads:
            ranges[name] = heads[name]
        elif name not in others and name not in metaranges:
            unknown.append(info)
    opened = set(metaranges)
    for info, table in zip(
        unknown, ordered_map(lambda info: open_table(run.reader, info), unknown, _AT_ONCE), strict=True
    ):
        name = info.key.removeprefix(METADATA)
        if kind_of(table) != RANGES:
            opened.add(name)
        elif table.records:
            ranges[name] = RangeFacts(table.records, b"", table.max_key)
    if opened - others:
        names = pa.table({"name": pa.array(sorted((others | opened) & files.keys()), pa.string())})
        run.state.put(_OTHERS, parquet_bytes(names))
    return ranges


def _read_others(run: ReferringRun) -> set[str]:
    """Names of files that are no ranges; none where that is not known any more: they are opened again."""
    try:
        return set(read_parquet(run.state.get(_OTHERS))["name"].to_pylist())
    except UnavailableError:
        raise
    except (DredgeError, KeyError) as error:
        log.info("files of %s are opened: %s", run.plan.repository, error)
        return set()


_RANGES = "ranges"


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


_CHECK = "referring"
_REPOSITORIES_MAX = 20
_PAGES_MAX = 5
_PAGE = 200
_OTHERS_AT_ONCE = 8
_LAST = "\U0010ffff"


def check_referring(
    config: GCConfig,
    client: LakeFS,
    namespace: str,
    options: StorageOptions | None,
    *,
    repositories_max: int = _REPOSITORIES_MAX,
) -> Iterator[Line]:
    """Look at the other repositories of the server.

    Args:
        config: of the runs to come.
        client: the server.
        namespace: URI of the storage namespace of the repository.
        options: how stores are reached; None reads the environment.
        repositories_max: repositories that are searched for references; each takes a few requests.
    """
    every = client.repositories()
    named = find_referring(config, {found.name: found.namespace for found in every})
    yield from (
        line
        for lines in ordered_map(
            lambda item: _named(client, *item, options), list(named.items()), _OTHERS_AT_ONCE
        )
        for line in lines
    )
    others = [found for found in every if found.name != config.repository and found.name not in named]
    looked = others[:repositories_max]
    found = [
        (other.name, example)
        for other, example in zip(
            looked,
            ordered_map(lambda other: _example(client, other, namespace), looked, _OTHERS_AT_ONCE),
            strict=True,
        )
        if example
    ]
    for name, example in found:
        yield Line(
            _CHECK,
            "warning",
            f"repository {name} refers to objects of this one, such as {example!r}: an import or a link. They go when"
            " this repository does not use them any more",
            f"Name {name} in referring_repositories, or let it import copies.",
        )
    if not found:
        yield ok(_CHECK, _words(len(named), len(looked), len(others)))


def _words(named: int, looked: int, others: int) -> str:
    text = (
        f"entries of {number_of(named, 'other repository', 'other repositories')} count as live"
        if named
        else ""
    )
    if others:
        seen = f"{looked:,} of {others:,} others" if looked < others else f"{others:,} others"
        text += f"{'; ' if text else ''}a sample of the default branch of {seen} shows no object of this one"
    return text or "the server has no other repository"


def _named(client: LakeFS, name: str, uri: str, options: StorageOptions | None) -> Sequence[Line]:
    """Errors of what a run will read."""
    try:
        client.branches(name)
        next(iter(open_reader(uri, options).list(METADATA)), None)
    except DredgeError as error:
        todo = f"Let the credentials of the runs read {uri} and the repository, or take it off referring_repositories."
        return [line_of(_CHECK, error, todo)]
    return []


def _example(client: LakeFS, other: Repository, namespace: str) -> str:
    """A key of the namespace that the default branch of another repository names; "" where the first entries of its
    first folders name none, or where it cannot be read."""
    after = ""
    try:
        for _ in range(_PAGES_MAX):
            page, more = client.objects_page(other.name, other.default_branch, after, _PAGE)
            for stats in page:
                if keys := answer_readings(stats.address, namespace):
                    return keys[0]
            if not more or not page:
                break
            folder, slash, _ = page[-1].path.partition("/")
            after = f"{folder}/{_LAST}" if slash else page[-1].path
    except UnavailableError:
        raise
    except DredgeError:
        return ""
    return ""
