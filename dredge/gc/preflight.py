"""The preflight of a lakeFS repository: what a collection will need, asked before the first one.

server    reachable, its version, the repository
   │
   └──▶   permissions · rules · namespaces · clock · store · owner, id, block, alarms · state · key-value store ·
          undo · estimate          all at once
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from dredge.errors import (
    BlockedError,
    DredgeError,
    RefusedError,
    UnavailableError,
    WitnessError,
)
from dredge.gc.clocks import compare_server
from dredge.gc.config import CLEAN, GCConfig
from dredge.gc.insight.run_cost import expected
from dredge.gc.mark_uncommitted import KVAccess, look
from dredge.gc.namespaces import DATA, check_namespaces
from dredge.gc.pending.known import find_list
from dredge.gc.plan import RUNS, STATE
from dredge.gc.referring import check_referring
from dredge.gc.run import open_state
from dredge.gc.state.store import StateStore
from dredge.gc.storage_classes import HELD, MINIMUM_DAYS
from dredge.gc.witness.block import describe, read_block
from dredge.gc.witness.mark_id import compare_ids
from dredge.gc.witness.owner import PLANNED, has_consent
from dredge.gc.witness.ownership import Site, read_owner, read_visitors
from dredge.lakefs import LakeFSClient, Repository
from dredge.runs.clock import Clock, utc_now
from dredge.runs.preflight import Check, Level, Line, Preflight, alarms_line, line_of, ok, perform
from dredge.runs.rendering import number_of
from dredge.storage import ObjectWriter, StorageOptions, open_reader
from dredge.storage.model import STORAGE_CLASS
from dredge.undo.alarms import open_alarms
from dredge.undo.preflight import (
    LIST_PRICE,
    check_folders,
    check_lifecycle,
    check_lock,
    check_reach,
    check_undo,
    estimate_line,
)
from dredge.xid import new_descending_xid

_LACKING = (
    (
        (1, 8),
        "it keeps no metadata of repositories and has no id, so a copy of its database cannot be told from itself",
        "Upgrade lakeFS; or consent to runs that delete: `dredge gc own {name} --without-id --reason …`.",
    ),
    (
        (1, 72),
        "prepare_commits answers when it is done, and a proxy that ends long requests ends the run",
        "Upgrade lakeFS, or let proxies wait for that call (up to 20 minutes).",
    ),
)
"""By version: what an older server lacks, and what to do. `dredge.lakefs.client.OLDEST_SERVER` has the rest."""
_SAMPLE_ROWS = 20_000
"""Objects listed to see what kinds there are and, where no run has counted them, how many at least."""


@dataclass(frozen=True, slots=True)
class _Site:
    """What the checks work with; has what `kv_store.look` asks for."""

    config: GCConfig
    client: LakeFSClient
    repository: Repository
    names: Mapping[str, str]
    state: ObjectWriter
    options: StorageOptions | None
    clock: Clock
    name: str

    @property
    def plan(self) -> _Target:
        """Names the repository."""
        return _Target(self.repository.name, self.repository.namespace)

    @property
    def namespace(self) -> str:
        """URI of the storage namespace, without a slash at its end."""
        return self.repository.namespace.rstrip("/")

    @property
    def site(self) -> Site:
        """For the witnesses."""
        return Site(self.state, self.client, self.repository.name, self.name)


@dataclass(frozen=True, slots=True)
class _Target:
    repository: str
    namespace: str


def check(
    config: GCConfig,
    client: LakeFSClient | None = None,
    options: StorageOptions | None = None,
    kv: KVAccess | None = None,
    clock: Clock = utc_now,
) -> Preflight:
    """Ask for everything that a collection will need. Leaves nothing behind.

    Args:
        config: of the runs to come.
        client: the lakeFS server; None reads the environment.
        options: how stores are reached; None reads the environment.
        kv: the key-value store; None reads the environment where the config says that it is read.
        clock: this machine's.
    """
    return perform(config.repository, _groups(config, client, options, kv, clock))


def _groups(
    config: GCConfig,
    client: LakeFSClient | None,
    options: StorageOptions | None,
    kv: KVAccess | None,
    clock: Clock,
) -> Iterator[Sequence[Check]]:
    met: list[_Site] = []

    def ask() -> Iterator[Line]:
        server = client or LakeFSClient.from_env()
        yield from _version(server.version(), config.repository)
        repository = server.repository(config.repository)
        names = {found.name: found.namespace for found in server.repositories()}
        state = open_state(repository.namespace, options)
        met.append(
            _Site(config, server, repository, names, state, options, clock, new_descending_xid(clock()))
        )
        yield _of_repository(repository, len(names))

    yield [Check("server", ask)]
    if met:
        yield _checks(met[0], kv)


def _checks(site: _Site, kv: KVAccess | None) -> list[Check]:
    folders = {"data": f"{site.namespace}/{DATA}".rstrip("/"), "state": f"{site.namespace}/{STATE}"}
    config, options = site.config, site.options
    run_uri = f"{(config.run_root or f'{site.namespace}/{RUNS}').rstrip('/')}/{site.name}"
    return [
        *(Check(f"right_{name}", ask) for name, ask in _permissions(site)),
        Check("right_metadata", lambda: _metadata(site)),
        Check("rules", lambda: _rules(site)),
        Check("namespaces", lambda: _namespaces(site)),
        Check("referring", lambda: check_referring(config, site.client, site.namespace, options)),
        Check("server_clock", lambda: _server_clock(site)),
        *check_folders(folders, site.name, config.safety.clock_skew_seconds_max, site.clock, options),
        Check("store_elsewhere", lambda: check_reach(site.namespace, options)),
        Check("lifecycle", lambda: check_lifecycle(folders, options)),
        Check("undo", lambda: check_undo(config.undo, site.namespace, run_uri, options)),
        Check("object_lock", lambda: check_lock(site.namespace, options)),
        Check("owner", lambda: _owner(site)),
        Check("block", lambda: _block(site)),
        Check("alarms", lambda: _alarms(site)),
        Check("past", lambda: _past(site)),
        Check("state", lambda: _state(site)),
        Check("kv", lambda: _kv(site, kv)),
        Check("estimate", lambda: _estimate(site)),
    ]


def _version(version: str, name: str) -> Iterator[Line]:
    """That the server answers, and what one of its age lacks."""
    yield ok("server", f"lakeFS {version or 'of an unknown version'} answers")
    numbers = re.match(r"v?(\d+)\.(\d+)\b", version)
    if numbers is None:
        return
    for since, lacks, todo in _LACKING:
        if (int(numbers[1]), int(numbers[2])) < since:
            at = ".".join(map(str, since))
            yield Line("server", "warning", f"it is older than {at}: {lacks}", todo.format(name=name))


def _of_repository(repository: Repository, of_server: int) -> Line:
    if repository.read_only:
        return Line(
            "repository",
            "error",
            "it is read-only, so lakeFS does not prepare it for collection",
            "Make it writable, or leave it out.",
            RefusedError.kind,
        )
    return ok("repository", f"{repository.namespace}, one of {of_server:,} repositories of the server")


def _permissions(site: _Site) -> Iterator[tuple[str, Callable[[], Iterator[Line]]]]:
    """One call for each permission that a mark needs, the cheapest that asks for it."""
    client, name, branch = site.client, site.repository.name, site.repository.default_branch
    calls: dict[str, tuple[str, Callable[[], object]]] = {
        "branches": ("fs:ListBranches", lambda: client.branches(name)),
        "tags": ("fs:ListTags", lambda: client.tags(name)),
        "commits": ("fs:ReadBranch, fs:ReadCommit", lambda: list(islice(client.log(name, branch), 1))),
        "objects": ("fs:ListObjects", lambda: client.objects(name, branch, amount=1)),
        "changes": ("fs:ListObjects", lambda: client.changes(name, branch, amount=1)),
    }
    for what, (permission, call) in calls.items():
        yield what, lambda what=what, permission=permission, call=call: _permission(what, permission, call)  # type: ignore[misc]


def _permission(what: str, permission: str, call: Callable[[], object]) -> Iterator[Line]:
    try:
        call()
    except UnavailableError:
        raise
    except DredgeError as error:
        yield line_of(
            f"right_{what}", error, f"Grant {permission} on the repository to the user of the connection."
        )
    else:
        yield ok(f"right_{what}", f"allowed ({permission})")


def _metadata(site: _Site) -> Iterator[Line]:
    """The right to set metadata. Only a key that is there already and that no run reads is written, as it is: a new
    one could not be taken away again."""
    todo = "Grant fs:UpdateRepository, or consent once: `dredge gc own {name} --without-id --reason …`."
    name, values = site.repository.name, site.client.metadata(site.repository.name)
    if values is None or (
        PLANNED in values and not site.client.set_metadata(name, {PLANNED: values[PLANNED]})
    ):
        consented = has_consent(site.site, read_owner(site.state))
        level: Level = "warning" if consented else "error"
        text = "the user may not set metadata of the repository" + (
            "; a person consented" if consented else ""
        )
        yield Line("right_metadata", level, text, "" if consented else todo.format(name=name), "refused")
    elif PLANNED in values:
        yield ok("right_metadata", "allowed (fs:UpdateRepository)")
    else:
        yield Line(
            "right_metadata",
            "warning",
            "not tried: no run that deletes has been planned yet, and a key that is set cannot be removed",
            "See that the user has fs:UpdateRepository; the plan of the first run that deletes asks for it.",
        )


def _rules(site: _Site) -> Iterator[Line]:
    rules = site.client.rules(site.repository.name)
    if rules is None:
        yield Line(
            "rules",
            "warning",
            "the repository has no rules: only what was never committed becomes garbage",
            "Set garbage collection rules in lakeFS if old commits are to expire.",
        )
    else:
        of_branches = f", {len(rules.branches):,} branches with their own" if rules.branches else ""
        yield ok(
            "rules", f"commits stay active for {number_of(rules.default_retention_days, 'day')}{of_branches}"
        )


def _namespaces(site: _Site) -> Iterator[Line]:
    warnings = check_namespaces(site.repository.name, site.names)
    for warning in warnings:
        yield Line("namespaces", "warning", warning, "Give each repository a namespace of its own.")
    if not warnings:
        yield ok("namespaces", "no other repository's overlaps with it")


def _server_clock(site: _Site) -> Iterator[Line]:
    # This machine's clock stands for the store's, which `store_state` compares with it.
    ahead = compare_server(site.client, site.clock, site.config.safety.clock_skew_seconds_max)
    if ahead is None:
        yield Line(
            "server_clock", "warning", "no answer of the server has a date", "See whether a proxy removes it."
        )
    else:
        yield ok("server_clock", f"the server's clock differs by {abs(ahead):.0f} s")


def _owner(site: _Site) -> Iterator[Line]:
    name, environment, owner = site.repository.name, site.client.environment(), read_owner(site.state)
    if owner is None:
        yield ok("owner", "no server owns the namespace yet; the first complete run makes this one the owner")
        return
    if not owner.includes(environment):
        yield Line(
            "owner",
            "error",
            f"the namespace is owned by {owner.environment.url}, and this is {environment.url}",
            f"Stop this Dredge if it is a copy; else `dredge gc own {name} --reason …`, or with --alias.",
            WitnessError.kind,
        )
        return
    yield ok("owner", f"this server owns the namespace, since {owner.since:%Y-%m-%d}")
    for visitor in read_visitors(site.state, owner):
        yield Line(
            "owner",
            "warning",
            f"another installation, {visitor.environment.url}, worked here at {visitor.at:%Y-%m-%d %H:%M} UTC",
            "Stop its Dredge, or give it a copy of the bucket.",
        )


def _block(site: _Site) -> Iterator[Line]:
    block = read_block(site.state)
    if block is None:
        yield ok("block", "nothing blocks the namespace")
    else:
        lift = f"Find its cause, then `dredge gc lift-block {site.repository.name} --reason …`."
        yield Line("block", "error", describe(block), lift, BlockedError.kind)


def _alarms(site: _Site) -> Iterator[Line]:
    todo = f"Bring back what is missing, then `dredge gc acknowledge {site.repository.name} --reason …`."
    yield alarms_line(len(open_alarms(site.state)), todo)


def _past(site: _Site) -> Iterator[Line]:
    compared = compare_ids(site.site)
    if compared.passes:
        yield ok("past", "the server has the id of the last complete mark, or there was none")
    else:
        yield Line(
            "past",
            "error",
            "the server lacks the id of the last complete mark: its database is older, or another one",
            f"See `dredge gc lost {site.repository.name}`; docs/owner.md has the causes.",
            WitnessError.kind,
        )


def _state(site: _Site) -> Iterator[Line]:
    """Whether what earlier runs left is there: an owner or an id without a state shows that it was lost."""
    name, namespace = site.repository.name, site.repository.namespace
    current = StateStore(site.state, site.options).current(name, namespace)
    stored = find_list(site.state, namespace, site.repository.created_at, site.clock())
    problem = current.problem or stored.problem
    if problem:
        yield Line(
            "state",
            "warning",
            f"what earlier runs left cannot be used: {problem}",
            "Restore it, or let it be: everything waits anew, and the next run reads everything.",
        )
    elif current.state is None and stored.pending is None and read_owner(site.state) is not None:
        yield Line(
            "state",
            "warning",
            "runs have worked here, and the pending list is gone",
            "Restore it, or let it be: everything waits anew, and the next run reads everything.",
        )
    else:
        yield ok(
            "state", "there is none yet" if current.state is None else f"left by run {current.state.run_id}"
        )


def _kv(site: _Site, kv: KVAccess | None) -> Iterator[Line]:
    if kv is None and not site.config.read_kv:
        yield ok("kv", "not named; what branches have staged is read from the server")
        return
    _, standing = look(site, lambda records: records.branches(), kv)
    if standing.refuted:
        todo = "Name the server's own database in the connection."
        yield Line("kv", "error", standing.doubt, todo, RefusedError.kind)
    elif standing.doubt:
        yield Line(
            "kv", "warning", standing.doubt, "Runs ask the server instead where the records prove nothing."
        )
    else:
        yield ok("kv", f"{standing.location} is the server's own")


def _estimate(site: _Site) -> Iterator[Line]:
    """Time and requests of the next run: as the last ones had them, else by the number of objects."""
    root = site.config.run_root or site.namespace
    found = expected(root, site.repository.name, CLEAN, site.config.dry_run, site.options)
    if found is not None:
        requests = found["work"]["list_requests"]
        seconds = sum(found["seconds"].values())
        text = f"{seconds:,.0f} s, {requests:,} listing requests (${requests * LIST_PRICE:,.2f}). {found['about']}"
        yield ok("estimate", text)
        return
    started = time.monotonic()
    rows, classes, whole = _sample(site)
    yield estimate_line("objects", rows, time.monotonic() - started, whole)
    archived = sorted(classes & set(HELD))
    if archived:
        yield Line(
            "storage_classes",
            "warning",
            f"there are objects in {', '.join(archived)}, which no run deletes",
            "Bring them back to another tier if they are to be collected.",
        )
    early = sorted(classes & set(MINIMUM_DAYS) - set(HELD))
    if early:
        yield Line(
            "storage_classes",
            "warning",
            f"there are objects in {', '.join(early)}, whose deletion within their minimum time is charged",
            "See the costs in the report of a dry run.",
        )


def _sample(site: _Site) -> tuple[int, set[str], bool]:
    """How many objects the first pages of a listing have, their storage classes, and whether these are all."""
    rows, classes = 0, set[str]()
    for batch in open_reader(site.namespace, site.options).list(DATA):
        rows += batch.num_rows
        if STORAGE_CLASS in batch.schema.names:
            classes |= {name for name in batch[STORAGE_CLASS].unique().to_pylist() if name}
        if rows >= _SAMPLE_ROWS:
            return rows, classes, False
    return rows, classes, True
