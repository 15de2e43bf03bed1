"""Planning a run: the lease, the clocks, the cutoff, the mode, and the plan that fixes them."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dredge.errors import ConfigError, DredgeError, FormatError, LeaseHeldError, NotFoundError, RefusedError
from dredge.gc.clocks import compare_server
from dredge.gc.config import CLEAN, OPTIMIZED, GCConfig
from dredge.gc.insight.run_cost import expected, expected_lines, forecast
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import DATA, check_namespaces, places_of
from dredge.gc.pending.known import find_list
from dredge.gc.plan import PLAN, RUNS, Plan
from dredge.gc.referring import find_referring
from dredge.gc.run import Run, make_lease, open_state, read_plan
from dredge.gc.state.store import Current, StateStore
from dredge.gc.witness.owner import check_plan
from dredge.gc.witness.ownership import Site
from dredge.inventory.manifest import Inventory, find_inventory
from dredge.lakefs import LakeFS, LakeFSClient, Repository
from dredge.runs.clock import Clock, Coverage, StoreClock, check_clocks, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.lease import LeaseGrant, hand_over
from dredge.runs.payload import to_json
from dredge.runs.pending.store import Stored
from dredge.runs.run import local_holder
from dredge.runs.versions import choose_mode
from dredge.storage import StorageOptions, open_writer
from dredge.storage.conditions import demand_conditions
from dredge.storage.parallel import at_once
from dredge.undo.pins import read_pins, slices_to_list
from dredge.undo.ways import choose_way
from dredge.xid import new_descending_xid

log = logging.getLogger("dredge")


def acquire_lease(
    config: GCConfig,
    holder: str,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
) -> LeaseGrant:
    """Acquire the lease of a repository: the exclusive right to work on it.

    Args:
        config: names the repository.
        holder: who asks, such as the id of the DAG run.
        client: None reads the environment.
        options: None reads the environment.

    Raises:
        LeaseHeldError: another run holds it.
        NotFoundError: there is no such repository.
    """
    repository = (client or LakeFSClient.from_env()).repository(config.repository)
    state = open_state(repository.namespace, options)
    grant = make_lease(state, config.safety.lease_seconds).acquire(holder)
    log.info("lease of %s taken by %s, number %d", config.repository, holder, grant.fencing)
    return grant


def resume_run(
    run_uri: str,
    repository: str,
    grant: LeaseGrant,
    options: StorageOptions | None = None,
) -> bool:
    """Let a run that was planned under an earlier lease of the same holder go on under a new one.

    Args:
        run_uri: URI of the run folder.
        repository: name in lakeFS that the lease was taken for.
        grant: the new lease.
        options: None reads the environment.

    Returns:
        Whether the run goes on under this lease; it does not when it is a run of somebody else or of another
        repository, or when a later lease was handed to it already.

    Raises:
        ConfigError: there is no run, or one that another version planned.
        FormatError: its plan is damaged.
        UnavailableError: others replace the plan all the time.
    """
    plan = read_plan(run_uri, options)
    if plan.repository != repository or not hand_over(open_writer(run_uri, options), PLAN, grant):
        return False
    log.info("run %s goes on under lease number %d", plan.run_id, grant.fencing)
    return True


def plan_run(
    config: GCConfig,
    lease: LeaseGrant | None = None,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> Plan:
    """Fix what a run works on, and write it as `plan.json` into a new run folder.

    Args:
        config: what the user asks for.
        lease: the grant, when the lease was acquired before; None acquires it, with the run id as holder.
        client: None reads the environment.
        options: None reads the environment.
        clock: this machine's clock.

    Returns:
        The plan; its `run_uri` is all that later steps need.

    Raises:
        ConfigError: the configuration does not fit.
        NotFoundError: there is no such repository.
        RefusedError: clocks differ too much, or namespaces overlap; or the run deletes, and the namespace is blocked or
            another server's, or the server keeps no id.
        LeaseHeldError: another run works on the repository.
        FormatError: a pin cannot be read, so nobody can tell what came back, and where.
    """
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
    check_namespaces(repository.name, namespaces)  # its warnings are those of a guard
    referring = find_referring(config, namespaces)
    root = _run_root(config, repository, namespaces)
    state = open_state(repository.namespace, options)
    store = StoreClock(state, clock)
    with at_once() as ask:
        state_read = ask(StateStore(state, options).current, repository.name, repository.namespace)
        pins = ask(read_pins, state)
        clocks = _compare_clocks(server, store, clock, config.safety.clock_skew_seconds_max)
    now = clocks.now
    run_id = new_descending_xid(now)
    with at_once() as ask:
        way = ask(choose_way, config.undo, repository.namespace, f"{root}/{run_id}", options)
        listed = ask(find_list, state, repository.namespace, repository.created_at, now)
        check_plan(Site(state, server, repository.name, run_id), config.dry_run)
    undo = way.result()
    log.info("run %s: undo is %s: %s", run_id, undo.way, undo.why)
    current = _with_list(state_read.result(), listed.result())
    mode, why = choose_mode(config.mode, config.clean_every_days, current, now)
    if mode == OPTIMIZED and (gone := _refer_no_more(current, referring, options)):
        mode, why = CLEAN, f"repository {gone} does not refer to this one any more"
    if current.problem:
        log.error("the state of %s is unusable, so everything is read: %s", repository.name, current.problem)
    again = Coverage() if current.state is None else slices_to_list(pins.result(), current.state.cutoff)
    inventory = _inventory(config, repository, mode, now, options)
    log.info("run %s of %s is %s: %s", run_id, repository.name, mode, why)
    repository_lease = make_lease(state, config.safety.lease_seconds, store.now)
    with at_once() as ask:
        expecting = ask(expected, root, repository.name, mode, config.dry_run, options, run_id)
        grant = (
            repository_lease.acquire(local_holder(run_id)) if lease is None else repository_lease.renew(lease)
        )
    plan = Plan(
        run_id=run_id,
        repository=repository.name,
        namespace=repository.namespace,
        run_uri=f"{root}/{run_id}",
        created_at=now,
        cutoff=cutoff(now, config, inventory),
        store_ahead_seconds=clocks.store_ahead_seconds,
        server_ahead_seconds=clocks.server_ahead_seconds,
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
    try:
        data = json.dumps(to_json(plan), indent=1, sort_keys=True).encode()
        open_writer(plan.run_uri, options).put_if_absent(PLAN, data)
    except DredgeError:
        if lease is None:  # no run will release it
            with suppress(DredgeError):
                repository_lease.release(grant)
        raise
    expect = forecast(plan, RunFolder(open_writer(plan.run_uri, options), run_id), expecting.result)
    if expect is not None:
        log.info("run %s: %s", run_id, " ".join(line.strip() for line in expected_lines(expect)[:3]))
    log.info("run %s of %s planned: cutoff %s, folder %s", run_id, plan.repository, plan.cutoff, plan.run_uri)
    return plan


def _with_list(current: Current, stored: Stored) -> Current:
    """What earlier runs left, which only a usable pending list makes complete."""
    if current.state is None or stored.pending is not None:
        return current
    return replace(current, state=None, problem=f"the pending list: {stored.problem or 'it is gone'}")


def _refer_no_more(
    current: Current, referring: Collection[str], options: StorageOptions | None
) -> str | None:
    """A repository whose entries counted as live in the run that left the state, and do not now: what it alone named is
    nothing that an optimized run would look at. None where there is none, or where that run says nothing."""
    if current.state is None:
        return None
    folder = RunFolder(open_writer(current.state.run_uri, options), current.state.run_id)
    with suppress(FormatError):
        summary = folder.read_summary(ListCommittedOutput.STEP)
        if summary is not None:
            names = {item["repository"] for item in ListCommittedOutput.of(summary).referring}
            return min(names - set(referring), default=None)
    return None


@dataclass(frozen=True, slots=True)
class _Clocks:
    """The store's time, and how far the store's and the server's clocks are ahead; see `Plan`."""

    now: datetime
    store_ahead_seconds: float
    server_ahead_seconds: float | None


def _compare_clocks(server: LakeFS, store: StoreClock, clock: Clock, seconds_max: float) -> _Clocks:
    before = clock()
    now = store.now()
    ahead = (now - before).total_seconds()
    check_clocks(ahead, seconds_max)
    with at_once() as ask:
        conditions = ask(demand_conditions, store.writer)
        server_ahead = ask(compare_server, server, store.now, seconds_max)
    conditions.result()
    return _Clocks(now, ahead, server_ahead.result())


def release_lease(run: Run) -> None:
    """Release a run's lease; does nothing when another run holds it by now."""
    run.lease.release(run.plan.lease)


def release_grant(
    config: GCConfig, grant: LeaseGrant, client: LakeFS | None = None, options: StorageOptions | None = None
) -> None:
    """Release a lease whose run never came to a plan.

    Args:
        config: names the repository.
        grant: of the lease.
        client: None reads the environment.
        options: None reads the environment.
    """
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


def cutoff(now: datetime, config: GCConfig, inventory: Inventory | None = None) -> datetime:
    """The instant before which an object must have been modified to be a candidate.

    Args:
        now: the store's time.
        config: for the minimum age.
        inventory: what is read instead of a listing; what was written since waits for the next one.
    """
    latest = now - timedelta(seconds=config.min_age_seconds)
    if inventory is None or inventory.created_at is None:
        return latest
    return min(latest, inventory.created_at)


def _inventory(
    config: GCConfig, repository: Repository, mode: str, now: datetime, options: StorageOptions | None
) -> Inventory | None:
    """What a clean run reads instead of listing; what an optimized one lists is little."""
    if config.inventory is None or mode != CLEAN:
        return None
    age_max = timedelta(days=config.safety.inventory_days_max)
    found = find_inventory(config.inventory, repository.namespace, now, age_max, options)
    log.info(
        "%s is read from inventory %s, begun %s", repository.name, found.source.uri, found.source.created_at
    )
    return found.source


def _run_root(config: GCConfig, repository: Repository, namespaces: Mapping[str, str]) -> str:
    if config.run_root is None:
        return f"{repository.namespace.rstrip('/')}/{RUNS}"
    if "://" not in config.run_root:
        raise ConfigError(f"run_root {config.run_root!r} is not a URI such as s3://bucket/folder")
    places = places_of(config.run_root)
    for name, namespace in namespaces.items():
        if any(place.startswith(outer + DATA) for outer in places_of(namespace) for place in places):
            raise ConfigError(
                f"run_root {config.run_root} lies among the data of repository {name}, where its files"
                " would be taken for garbage. Name another folder."
            )
    return config.run_root.rstrip("/")
