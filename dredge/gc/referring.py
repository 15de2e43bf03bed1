"""Other repositories with entries in this namespace (imports, links): their addresses are live here (L17).

    referring_repositories → repositories of the server → of each: branch heads → staging → files of its `_lakefs/`
                                                          └──────────── keys below this namespace ───────────────┘

Staging is read before files, as for any repository: an entry moves from staging into a file (L1). Heads come first:
later changes of branches are followed while objects are deleted (`bulk_delete.watch`).

Every range file of such a repository counts, with or without a commit: its rules and its Dredge's retention policy do
not matter here, a new commit writes its files first, and a commit lost with a database has left its files.

lakeFS's scan of staging shows no address outside the scanned repository's namespace, so it is useless here. The staging
records of the key-value store have all addresses. Without them, or in doubt, each branch is asked for its changes, and
each changed path for its address; a staged entry equal to the committed one is no change, so objects of the size of an
entry in a branch head are held (`subtract.candidates`).

Each file is opened once: the index has the ranges, and a file beside it the names of all others.

    <state>/referring/<repository>/index/…
    <state>/referring/<repository>/others.parquet      name: metaranges and refs dumps that were opened
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
from msgspec import Struct, field, structs

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
from dredge.gc.index.ranges import RangeFacts, Ranges, ranges_table, read_ranges
from dredge.gc.index.store import CommittedIndex
from dredge.gc.list_committed import SIZES, Roles, collect_ranges, known_commit
from dredge.gc.mark_uncommitted import (
    BranchReader,
    StagedFiles,
    TooManyError,
    UnreadableError,
    list_branches,
    read_records,
)
from dredge.gc.namespaces import METADATA, Keys
from dredge.gc.run import Run
from dredge.lakefs import QUESTIONS, LakeFSClient, Ref, Repository
from dredge.lakefs.files.addresses import answer_readings
from dredge.lakefs.files.ranges import kind_of, list_tables, open_tables
from dredge.lakefs.files.sstable import RANGES
from dredge.runs.parts import parquet_bytes, read_parquet
from dredge.runs.payload import PartInfo
from dredge.runs.preflight import Line, line_of, ok, warning
from dredge.runs.report import number_of
from dredge.runs.tasks import TaskRunner, TooManyRowsError
from dredge.sets.hashes import NONE
from dredge.sets.live import ShardedSet
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

# Folder of the index of such repositories, in the folder of lease and index.
FOLDER = "referring"
_OTHERS = "others.parquet"
_RANGES = "ranges"
# The preflight only takes samples: pages of the default branch of some other repositories.
_CHECK = "referring"
_REPOSITORIES_MAX = 20
_OTHERS_AT_ONCE = 8
_PAGES_MAX = 5
_PAGE = 200
_LAST = "\U0010ffff"


def find_referring(config: GCConfig, namespaces: Mapping[str, str]) -> dict[str, str]:
    """Choose the repositories whose entries count as live, from all of the server; both with their namespaces. Raises
    ConfigError: the server does not list a named repository."""
    others = {name: uri for name, uri in sorted(namespaces.items()) if name != config.repository}
    if EVERY_OTHER in config.referring:
        return others
    wanted = config.referring - {config.repository}
    if missing := sorted(wanted - others.keys()):
        raise ConfigError(
            f"referring_repositories names {', '.join(missing)}, which the server does not list. Their entries may use"
            f" objects of {config.repository}. Nothing (more) was deleted. Correct the name, or remove it if the"
            " repository was deleted."
        )
    return {name: uri for name, uri in others.items() if name in wanted}


def open_referring(run: Run, name: str, namespace: str) -> Run:
    """Open another repository for a run, by its name and namespace: plan, reader and index are that repository's, the
    wanted keys are those of the collected repository. The view has no lease and runs no step."""
    config = replace(
        run.plan.config, repository=name, referring_repositories=None, policy=None, keep_tags=False
    )
    return Run(
        plan=replace(run.plan, repository=name, namespace=namespace, config=config),
        folder=run.folder,
        reader=open_reader(namespace, run.options),
        state=open_writer(f"{run.state.uri}/{FOLDER}/{name}", run.options),
        clock=run.clock,
        options=run.options,
        _client=run.client,
        _keys=Keys(namespace=run.plan.namespace, own=False),
    )


@contextmanager
def refusing(name: str, repository: str) -> Iterator[None]:
    """Add to errors the repository `name`, whose entries may name objects of the collected `repository`."""
    about = f"repository {name}, one of referring_repositories, cannot be read"
    try:
        yield
    except (DefectError, LeaseHeldError, OvertakenError, TooManyRowsError):
        raise  # about this run
    except UnavailableError as error:
        raise UnavailableError(f"{about}: {error}") from error
    except DredgeError as error:
        raise RefusedError(
            f"{about}: {error} Its entries may use objects of {repository}. Nothing (more) was deleted. Correct this,"
            f" or remove {name} from referring_repositories."
        ) from error


def read_staged(run: Run, branches: Collection[Ref], files: StagedFiles) -> bool:
    """Write the staged addresses of another repository in the collected namespace to `files`. Returns whether every
    record was read; else a staged entry equal to the committed one of its path is missing, because it is no
    change."""
    if run.plan.config.read_kv and not read_records(run, files, NONE).check.doubt:
        return True
    most = run.plan.config.safety.staged_questions_max
    reader = BranchReader(run, NONE)
    reader.bound(most)
    try:
        with ThreadPoolExecutor(QUESTIONS.size) as pool:
            for branch in branches:
                reader.take_all(pool, branch.id, "")
    except UnreadableError as error:
        raise RefusedError(f"{error}.") from None
    except TooManyError:
        raise RefusedError(
            f"its branches have too many uncommitted changes for {most:,} questions. Commit them, raise"
            " staged_questions_max, or set kv_conn_id to lakeFS's own key-value store."
        ) from None
    if reader.addresses:
        files.write(pa.array(sorted(reader.addresses), pa.string()))
    return False


def find_ranges(run: Run, runner: TaskRunner, where: str, metaranges: Collection[str]) -> Ranges:
    """Find every range file of another repository, with or without a commit; given are the metaranges of its branch
    heads."""
    files = list_tables(run.reader)
    heads = read_ranges(run, runner, f"{where}/heads", metaranges)
    if missing := sorted({*heads, *metaranges} - files.keys()):
        raise RefusedError(f"{METADATA}{missing[0]} of a branch head is missing in {run.reader.uri}.")
    index = CommittedIndex.load(run.state, run.keys.namespace)
    others = _read_others(run)
    ranges: Ranges = {}
    unknown = {}
    for name, info in files.items():
        if index.part_of(name) is not None:
            ranges[name] = RangeFacts(index.places[name][1], b"", b"", name in heads)
        elif name in heads:
            ranges[name] = structs.replace(heads[name], head=True)
        elif name not in others and name not in metaranges:
            unknown[name] = info
    opened = set(metaranges)
    for name, table in open_tables(run.reader, unknown):
        if kind_of(table) != RANGES:
            opened.add(name)
        elif table.records:
            ranges[name] = RangeFacts(table.records, b"", table.max_key)
    if opened - others:
        names = pa.table({"name": pa.array(sorted((others | opened) & files.keys()), pa.string())})
        run.state.put(_OTHERS, parquet_bytes(names))
    return ranges


def _read_others(run: Run) -> set[str]:
    """Names of files that are not ranges; empty after a loss, so they are opened again."""
    try:
        return set(read_parquet(run.state.get(_OTHERS))["name"].to_pylist())
    except UnavailableError:
        raise
    except (DredgeError, KeyError) as error:
        log.info("files of %s are opened: %s", run.plan.repository, error)
        return set()


class Referred(Struct, frozen=True, kw_only=True):
    """The addresses of another repository in the collected namespace."""

    repository: str
    namespace: str
    heads: dict[str, str]  # metarange id by head commit
    branches: list[tuple[str, str]]  # (name, commit)
    addresses: list[PartInfo]  # files of staged addresses
    ranges: PartInfo  # rows of its ranges
    live: ShardedSet  # hashes of all addresses
    # sizes of the entries of branch heads; empty where all staging records were read
    sizes: ShardedSet = field(default_factory=lambda: ShardedSet(0, {}))


def read_referring(
    run: Run, runner: TaskRunner, where: str, note: Callable[[list[PartInfo]], None] = lambda _: None
) -> list[Referred]:
    """Read every repository with entries in this namespace; `note` is called with the written files."""
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


def _look(run: Run, runner: TaskRunner, where: str) -> tuple[Referred, list[PartInfo]]:
    branches = list_branches(run.client, run.plan.repository)
    files = StagedFiles(run.folder, where)
    exact = read_staged(run, branches, files)
    commits = sorted({branch.commit_id for branch in branches})
    metaranges = ordered_map(lambda item: _metarange_of(run, item), commits, QUESTIONS)
    heads = dict(zip(commits, metaranges, strict=True))
    ranges = find_ranges(run, runner, where, {item for item in heads.values() if item})
    collected = collect_ranges(run, runner, where, Roles(ranges), files.hashes)
    table = run.folder.write_table(where, 0, ranges_table(ranges), _RANGES)
    referred = Referred(
        repository=run.plan.repository,
        namespace=run.plan.namespace,
        heads=heads,
        branches=[(branch.id, branch.commit_id) for branch in branches],
        addresses=files.addresses,
        ranges=table,
        live=collected.live,
        sizes=ShardedSet(0, {}) if exact else collected.set_of(SIZES),
    )
    return referred, [*files.parts, *collected.parts, table]


def _metarange_of(run: Run, commit_id: str) -> str:
    about = f"a branch is at commit {commit_id}, which lakeFS does not have"
    return known_commit(run.client, run.plan.repository, commit_id, about).metarange_id


def check_referring(
    config: GCConfig,
    client: LakeFSClient,
    namespace: str,
    options: StorageOptions | None,
    *,
    repositories_max: int = _REPOSITORIES_MAX,
) -> Iterator[Line]:
    """Yield preflight lines: whether the named repositories can be read, and whether a sample of the other ones
    refers to this one."""
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
        yield warning(
            _CHECK,
            f"repository {name} refers to objects of this one, such as {example!r}: an import or a link. Runs delete"
            " them when this repository no longer uses them",
            f"Add {name} to referring_repositories, or let it import copies.",
        )
    if not found:
        yield ok(_CHECK, _describe(len(named), len(looked), len(others)))


def _describe(named: int, looked: int, others: int) -> str:
    text = (
        f"entries of {number_of(named, 'other repository', 'other repositories')} count as live"
        if named
        else ""
    )
    if others:
        seen = f"{looked:,} of {others:,} others" if looked < others else f"{others:,} others"
        text += f"{'; ' if text else ''}a sample of the default branch of {seen} shows no object of this one"
    return text or "the server has no other repository"


def _named(client: LakeFSClient, name: str, uri: str, options: StorageOptions | None) -> Sequence[Line]:
    try:
        client.branches(name)
        next(iter(open_reader(uri, options).list(METADATA)), None)
    except DredgeError as error:
        todo = f"Let the runs read {uri} and the repository, or remove it from referring_repositories."
        return [line_of(_CHECK, error, todo)]
    return []


def _example(client: LakeFSClient, other: Repository, namespace: str) -> str:
    """A key of the namespace in the first folders of another repository's default branch; "" for none found."""
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
