"""Plans a run: lease, clocks, cutoff and mode.

Three clocks decide which objects are young: the object store's, this machine's, and those of the lakeFS servers.

    server A hands out an address, upload      lakeFS signs A's time into the address; Last-Modified is the store's
    server B links it                          refused if B's clock is more than 24 h after the signed time
    a run finds the object                     Last-Modified is more than the minimum age before the store's time
    a later run deletes it                     a grace later

If all servers are within s of the store's clock, no link succeeds later than 24 h + 2 s after the upload. The minimum
age is an hour longer than lakeFS's 24, and a later link is live in the mark of the next run, a grace after the object
was found. So one coarse comparison with any server is enough.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime

from msgspec.structs import replace

from dredge.errors import ConfigError, FormatError, LeaseHeldError, NotFoundError, RefusedError
from dredge.gc.config import CLEAN, OPTIMIZED, GCConfig
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import DATA, check_namespaces, places_of
from dredge.gc.pending.known import find_list
from dredge.gc.referring import find_referring
from dredge.gc.run import RUNS, Plan, make_lease, open_state
from dredge.gc.state import Current, StateStore
from dredge.gc.witness.owner import Site, check_plan, read_block, read_environment_and_owner
from dredge.inventory.manifest import plan_inventory
from dredge.lakefs import LakeFSClient, Repository
from dredge.runs import run as runs
from dredge.runs.clock import NTP, Clock, Coverage, StoreClock, compare_store, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.lease import LeaseGrant
from dredge.runs.pending.store import Stored
from dredge.runs.versions import choose_mode
from dredge.storage import StorageOptions, open_writer
from dredge.storage.parallel import at_once
from dredge.storage.probe import demand_conditions
from dredge.undo.pins import read_pins, slices_to_list
from dredge.undo.ways import choose_way
from dredge.xid import new_descending_xid

log = logging.getLogger("dredge")


def acquire_lease(
    config: GCConfig, holder: str, client: LakeFSClient | None = None, options: StorageOptions | None = None
) -> LeaseGrant:
    """Acquire the lease of a repository, the exclusive right to run, for a holder such as a DAG run. Raises
    LeaseHeldError: another run holds it."""
    repository = (client or LakeFSClient.from_env()).repository(config.repository)
    state = open_state(repository.namespace, options)
    grant = make_lease(state, config.safety.lease_seconds).acquire(holder)
    log.info("lease of %s taken by %s, number %d", config.repository, holder, grant.fencing)
    return grant


def release_grant(
    config: GCConfig,
    grant: LeaseGrant,
    client: LakeFSClient | None = None,
    options: StorageOptions | None = None,
) -> None:
    """Release a lease without a planned run."""
    try:
        repository = (client or LakeFSClient.from_env()).repository(config.repository)
    except (NotFoundError, RefusedError) as error:
        log.warning("the lease of %s is left to expire: %s", config.repository, error)
        return
    lease = make_lease(open_state(repository.namespace, options), config.safety.lease_seconds)
    try:
        lease.release(grant)
    except LeaseHeldError as error:
        log.warning("%s", error)


def plan_run(
    config: GCConfig,
    lease: LeaseGrant | None = None,
    client: LakeFSClient | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> Plan:
    """Plan a run and write `plan.json` to a new run folder. `lease`: None acquires it, with the run id as holder.
    Raises ConfigError: an invalid setting; RefusedError: clocks differ too much, or namespaces overlap; or the run
    deletes, and the namespace is blocked or another server's, or the server keeps no id; LeaseHeldError: another run
    works on the repository; FormatError: a pin cannot be read, so the restored objects are unknown."""
    server = client or LakeFSClient.from_env()
    with at_once() as ask:
        repositories = ask(server.repositories)
        repository = server.repository(config.repository)
    namespaces = {found.name: found.namespace for found in repositories.result()}
    if repository.read_only:
        raise RefusedError(
            f"repository {repository.name} is read-only, so lakeFS does not prepare it for collection."
            " Nothing was deleted."
        )
    check_namespaces(repository.name, namespaces)  # a guard reports its warnings
    referring = find_referring(config, namespaces)
    root = _run_root(config, repository, namespaces)
    state = open_state(repository.namespace, options)
    store = StoreClock(state, clock)
    with at_once() as ask:
        state_read = ask(StateStore(state, options).current, repository.name, repository.namespace)
        pins = ask(read_pins, state)
        if not config.dry_run:
            owner_read = ask(read_environment_and_owner, Site(state, server, repository.name, ""))
            block_read = ask(read_block, state)
        now, ahead = compare_store(store, clock, config.safety.clock_skew_seconds_max)
        run_id = new_descending_xid(now)
        conditions = ask(demand_conditions, state)
        comparison = ask(compare_server, server, store.now, config.safety.clock_skew_seconds_max)
        way = ask(choose_way, config.undo, repository.namespace, f"{root}/{run_id}", options)
        listed = ask(find_list, state, repository.namespace, repository.created_at, now)
        gone = ask(lambda: _refer_no_more(state_read.result(), referring, options))
        repository_lease = make_lease(state, config.safety.lease_seconds, store.now)
        held = ask(repository_lease.read) if lease is None else None
        if not config.dry_run:
            site = Site(state, server, repository.name, run_id, store.now)
            check_plan(site, owner_read.result, block_read.result)
    conditions.result()
    server_ahead = comparison.result()
    undo = way.result()
    log.info("run %s: undo is %s: %s", run_id, undo.way, undo.why)
    current = _with_list(state_read.result(), listed.result())
    mode, why = choose_mode(config.mode, config.clean_every_days, current, now)
    if mode == OPTIMIZED and gone.result():
        mode, why = CLEAN, f"repository {gone.result()} is no longer in referring_repositories"
    if current.problem:
        log.error("the state of %s is unusable, so this run reads all: %s", repository.name, current.problem)
    again = Coverage() if current.state is None else slices_to_list(pins.result(), current.state.cutoff)
    source = config.inventory if mode == CLEAN else None  # an optimized run lists only a few slices
    days_max = config.safety.inventory_days_max
    inventory = plan_inventory(source, repository.namespace, now, days_max, options)
    log.info("run %s of %s is %s: %s", run_id, repository.name, mode, why)
    grant = (
        repository_lease.renew(lease)
        if lease is not None
        else repository_lease.acquire(runs.local_holder(run_id), None if held is None else held.result)
    )
    plan = Plan(
        run_id=run_id,
        repository=repository.name,
        namespace=repository.namespace,
        run_uri=f"{root}/{run_id}",
        created_at=now,
        cutoff=config.cutoff(now, None if inventory is None else inventory.created_at),
        store_ahead_seconds=ahead,
        server_ahead_seconds=server_ahead,
        lease=grant,
        config=config,
        default_branch=repository.default_branch,
        mode=mode,
        why_mode=why,
        state=None if current.state is None else current.version,
        state_etag=current.etag,
        covered=current.state.covered if mode == OPTIMIZED and current.state is not None else Coverage(),
        again=again,
        namespaces=namespaces,
        inventory=inventory,
        undo=undo,
    )
    runs.write_plan(plan, plan.run_uri, options, repository_lease, keep_lease=lease is not None)
    log.info("run %s of %s planned: cutoff %s, folder %s", run_id, plan.repository, plan.cutoff, plan.run_uri)
    return plan


def _with_list(current: Current, stored: Stored) -> Current:
    """Return the state, which is complete only with a usable pending list."""
    if current.state is None or stored.pending is not None:
        return current
    return replace(current, state=None, problem=f"the pending list: {stored.problem or 'it is missing'}")


def _refer_no_more(
    current: Current, referring: Collection[str], options: StorageOptions | None
) -> str | None:
    """Return a repository of the last run's referring repositories missing in this run's, if any."""
    # Objects used only by that repository are garbage, and no optimized run would read them.
    if current.state is None:
        return None
    folder = RunFolder(open_writer(current.state.run_uri, options), current.state.run_id)
    with suppress(FormatError):
        committed = folder.read_output(ListCommittedOutput)
        if committed is not None:
            names = {item["repository"] for item in committed.referring}
            return min(names - set(referring), default=None)
    return None


def compare_server(
    server: LakeFSClient, store_now: Callable[[], datetime], seconds_max: float
) -> float | None:
    """Return the proved difference in seconds of a lakeFS server's clock minus the store's; None without a time in
    the response. Raises RefusedError: it is more than `seconds_max`."""
    # Read between two readings of the store's clock, the difference is an interval: as long as the three requests took,
    # and a second longer for each clock in whole seconds.
    before = store_now()
    seen = server.clock()
    after = store_now()
    if seen is None:
        log.warning(
            "lakeFS's response has no Date header (a proxy may remove it), so its clock was not compared with the"
            " store's"
        )
        return None
    least, most = (seen - after).total_seconds() - 1, (seen - before).total_seconds() + 1
    certain = least if least > 0 else min(most, 0.0)
    if abs(certain) > seconds_max:
        side = "ahead of" if certain > 0 else "behind"
        raise RefusedError(
            f"a lakeFS server's clock is {abs(certain):.0f} s {side} the object store's, more than"
            f" {seconds_max:.0f} s. The server decides by its clock whether an upload may still be linked, so the age"
            f" of garbage is not known. {NTP}"
        )
    return certain


def _run_root(config: GCConfig, repository: Repository, namespaces: Mapping[str, str]) -> str:
    if config.run_root is None:
        return f"{repository.namespace.rstrip('/')}/{RUNS}"
    if "://" not in config.run_root:
        raise ConfigError(f"run_root {config.run_root!r} is not a URI such as s3://bucket/folder")
    places = places_of(config.run_root)
    for name, namespace in namespaces.items():
        if any(place.startswith(outer + DATA) for outer in places_of(namespace) for place in places):
            raise ConfigError(
                f"run_root {config.run_root} is among the data of repository {name}, so its files would be garbage."
                " Choose another folder."
            )
    return config.run_root.rstrip("/")
