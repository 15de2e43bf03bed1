"""The preflight of a lakeFS repository: checks the requirements of a collection before the first run.

server    reachable, its version, the repository
   │
   └──▶   permissions · rules · namespaces · clock · store · owner, id, block, alarms · state · key-value store ·
          undo · estimate          all at once
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from dredge.errors import (
    BlockedError,
    DredgeError,
    RefusedError,
    UnavailableError,
    WitnessError,
)
from dredge.gc.config import GCConfig
from dredge.gc.mark_uncommitted import KVAccess, read_checked
from dredge.gc.namespaces import DATA, check_namespaces
from dredge.gc.pending.known import find_list
from dredge.gc.planning import compare_server
from dredge.gc.referring import check_referring
from dredge.gc.run import RUNS, STATE, open_state
from dredge.gc.state import StateStore
from dredge.gc.storage_classes import CHARGED_EARLY, HELD
from dredge.gc.witness.owner import (
    PLANNED,
    Site,
    compare_ids,
    describe,
    has_consent,
    read_block,
    read_owner,
    read_visitors,
)
from dredge.lakefs import LakeFSClient, Repository
from dredge.runs.clock import Clock, utc_now
from dredge.runs.preflight import Check, Level, Line, Preflight, alarms_line, line_of, ok, perform, warning
from dredge.runs.report import number_of
from dredge.storage import ObjectWriter, StorageOptions, open_reader
from dredge.storage.listing_schema import STORAGE_CLASS
from dredge.undo.alarms import open_alarms
from dredge.undo.preflight import (
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
        "it keeps no metadata of repositories, so no id of a mark; a copy of its database is not recognized",
        "Upgrade lakeFS; or consent to runs that delete: `dredge gc own {name} --without-id --reason …`.",
    ),
    (
        (1, 72),
        "prepare_commits is one long request, and a proxy with a shorter timeout ends the run",
        "Upgrade lakeFS, or set a timeout of 20 minutes in proxies for that call.",
    ),
)
"""Missing features of older servers by version, with the action; see also `dredge.lakefs.client.OLDEST_SERVER`."""
_STATE_REMEDY = (
    "Restore it, or continue: the wait of all objects starts again, and the next run reads everything."
)
_SAMPLE_ROWS = 20_000
"""Objects listed to find storage classes and, before the first run, a lower bound of their number."""


class _Site(Struct, frozen=True):
    config: GCConfig
    client: LakeFSClient
    repository: Repository
    names: Mapping[str, str]
    state: ObjectWriter
    options: StorageOptions | None
    clock: Clock
    name: str

    @property
    def namespace(self) -> str:
        """URI of the storage namespace without a trailing slash."""
        return self.repository.namespace.rstrip("/")

    @property
    def site(self) -> Site:
        """The site of the witnesses."""
        return Site(self.state, self.client, self.repository.name, self.name)


def check(
    config: GCConfig,
    client: LakeFSClient | None = None,
    options: StorageOptions | None = None,
    kv: KVAccess | None = None,
    clock: Clock = utc_now,
) -> Preflight:
    """Check the requirements of a collection. Leaves no files. `kv`: None reads the environment, with `read_kv`."""
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
    yield ok("server", f"lakeFS {version or 'of an unknown version'} answers")
    numbers = re.match(r"v?(\d+)\.(\d+)\b", version)
    if numbers is None:
        return
    for since, lacks, todo in _LACKING:
        if (int(numbers[1]), int(numbers[2])) < since:
            at = ".".join(map(str, since))
            yield warning("server", f"it is older than {at}: {lacks}", todo.format(name=name))


def _of_repository(repository: Repository, of_server: int) -> Line:
    if repository.read_only:
        return Line(
            "repository",
            "error",
            "it is read-only, so lakeFS does not prepare it for collection",
            "Make it writable, or exclude it.",
            RefusedError.kind,
        )
    return ok("repository", f"{repository.namespace}, one of {of_server:,} repositories of the server")


def _permissions(site: _Site) -> Iterator[tuple[str, Callable[[], Iterator[Line]]]]:
    """Return the cheapest call for each permission of a mark."""
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
    # Only an existing key is rewritten, unchanged: a new key could not be removed.
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
        yield warning(
            "right_metadata",
            "not tried: no run with deletions has been planned yet, and a new key could not be removed",
            "Check the user's right fs:UpdateRepository; the plan of the first run with deletions needs it.",
        )


def _rules(site: _Site) -> Iterator[Line]:
    rules = site.client.rules(site.repository.name)
    if rules is None:
        yield warning(
            "rules",
            "the repository has no rules: only objects without a commit become garbage",
            "Set garbage collection rules in lakeFS if old commits are to expire.",
        )
    else:
        of_branches = f", {len(rules.branches):,} branches with their own" if rules.branches else ""
        yield ok(
            "rules", f"commits stay active for {number_of(rules.default_retention_days, 'day')}{of_branches}"
        )


def _namespaces(site: _Site) -> Iterator[Line]:
    found = check_namespaces(site.repository.name, site.names)
    for text in found:
        yield warning("namespaces", text, "Use a separate namespace for each repository.")
    if not found:
        yield ok("namespaces", "it overlaps with that of no other repository")


def _server_clock(site: _Site) -> Iterator[Line]:
    # This machine's clock in place of the store's: `store_state` compares the two.
    ahead = compare_server(site.client, site.clock, site.config.safety.clock_skew_seconds_max)
    if ahead is None:
        yield warning(
            "server_clock", "responses of the server have no date", "Check whether a proxy removes it."
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
    for visitor in read_visitors(site.state):
        if owner.includes(visitor.environment):
            continue
        yield warning(
            "owner",
            f"another installation, {visitor.environment.url}, ran here at {visitor.at:%Y-%m-%d %H:%M} UTC",
            "Stop its Dredge, or give it a copy of the bucket.",
        )


def _block(site: _Site) -> Iterator[Line]:
    block = read_block(site.state)
    if block is None:
        yield ok("block", "the namespace is not blocked")
    else:
        lift = f"Find its cause, then `dredge gc lift-block {site.repository.name} --reason …`."
        yield Line("block", "error", describe(block), lift, BlockedError.kind)


def _alarms(site: _Site) -> Iterator[Line]:
    todo = f"Restore missing objects, then `dredge gc acknowledge {site.repository.name} --reason …`."
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
    name, namespace = site.repository.name, site.repository.namespace
    current = StateStore(site.state, site.options).current(name, namespace)
    stored = find_list(site.state, namespace, site.repository.created_at, site.clock())
    problem = current.problem or stored.problem
    if problem:
        yield warning("state", f"the state of earlier runs is not usable: {problem}", _STATE_REMEDY)
    elif current.state is None and stored.pending is None and read_owner(site.state) is not None:
        yield warning("state", "the namespace has an owner, and the pending list is missing", _STATE_REMEDY)
    else:
        yield ok(
            "state", "there is none yet" if current.state is None else f"left by run {current.state.run_id}"
        )


def _kv(site: _Site, kv: KVAccess | None) -> Iterator[Line]:
    if kv is None and not site.config.read_kv:
        yield ok("kv", "not configured; staging is read from the server")
        return
    _, found = read_checked(
        site.client, site.repository.name, site.repository.namespace, lambda records: records.branches(), kv
    )
    if found.refuted:
        todo = "Set the server's own database in the connection."
        yield Line("kv", "error", found.doubt, todo, RefusedError.kind)
    elif found.doubt:
        yield warning("kv", found.doubt, "Without such a proof, runs read staging from the server.")
    else:
        yield ok("kv", f"{found.location} is the server's own")


def _estimate(site: _Site) -> Iterator[Line]:
    """Estimate time and requests of a listing from the number of objects."""
    started = time.monotonic()
    rows, classes, whole = _sample(site)
    yield estimate_line("objects", rows, time.monotonic() - started, whole)
    archived = sorted(classes & set(HELD))
    if archived:
        yield warning(
            "storage_classes",
            f"no run deletes the objects in {', '.join(archived)}",
            "Move them to another tier to collect them.",
        )
    early = sorted(classes & set(CHARGED_EARLY) - set(HELD))
    if early:
        yield warning(
            "storage_classes",
            f"the deletion of objects in {', '.join(early)} within their minimum time is charged",
            "Check the price list of the store.",
        )


def _sample(site: _Site) -> tuple[int, set[str], bool]:
    """List the first pages: number of objects, their storage classes, and whether the listing is complete."""
    rows, classes = 0, set[str]()
    for batch in open_reader(site.namespace, site.options).list(DATA):
        rows += batch.num_rows
        if STORAGE_CLASS in batch.schema.names:
            classes |= {name for name in batch[STORAGE_CLASS].unique().to_pylist() if name}
        if rows >= _SAMPLE_ROWS:
            return rows, classes, False
    return rows, classes, True
