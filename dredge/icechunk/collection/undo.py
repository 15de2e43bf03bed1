"""Take deletions of a collection back, and make them final: what `dredge.undo` needs to know of a repository.

restore    chunks, then manifests, transaction logs and snapshots: what is named comes back before what names it
purge      copies and old versions that runs left, once they are old enough
"""

from __future__ import annotations

from functools import partial

from dredge.icechunk.collection.purging import find_live, mark_for_purge
from dredge.icechunk.collection.swept import open_swept
from dredge.icechunk.collection.undo_config import IcechunkPurgeConfig, IcechunkRestoreConfig
from dredge.icechunk.maintenance import RUNS, make_lease, open_state
from dredge.icechunk.repository import spec_version
from dredge.runs.clock import Clock, utc_now
from dredge.runs.consents import check_reason, record_consent
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions, open_reader
from dredge.undo import purge as purging
from dredge.undo import restore as restoring
from dredge.undo.alarms import Acknowledged, Alarm, acknowledge, open_alarms
from dredge.undo.deleted import Collected
from dredge.xid import new_xid

ACKNOWLEDGE = "acknowledge"


def restore(
    config: IcechunkRestoreConfig,
    runner: TaskRunner,
    holder: str | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Take deletions of a run back.

    Args:
        config: which, and for how long they are kept.
        runner: spreads the work.
        holder: who takes the lease; None is this restore alone.
        options: how stores are reached; None reads the environment. Tasks always read theirs.
        clock: this machine's clock.

    Raises:
        ConfigError: there is no such run, or it deleted nothing that fits.
        NotFoundError: there is no repository.
        LeaseHeldError: another run works on the repository.
        UnavailableError: some objects could not be brought back; the others were.
    """
    return restoring.restore(collected_of(config.repository, options), config, runner, holder, options, clock)


def purge(
    config: IcechunkPurgeConfig,
    runner: TaskRunner,
    holder: str | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Let copies and old versions go that runs left behind.

    Args:
        config: which; a dry run only looks.
        runner: spreads the work.
        holder: who takes the lease; None is this purge alone.
        options: how stores are reached; None reads the environment. Tasks always read theirs.
        clock: this machine's clock.

    Raises:
        ConfigError: there is no such run.
        NotFoundError: there is no repository.
        LeaseHeldError: another run works on the repository.
        UnavailableError: something could not be deleted; the rest was.
        FormatError: a pin cannot be read, so nobody can tell what it holds.
    """
    collected = collected_of(config.repository, options)
    holder = holder or f"purge {new_xid(clock())}"
    if config.dry_run:
        return purging.purge(collected, config, runner, holder, options, clock)
    lease = make_lease(collected.state)
    grant = lease.acquire(holder)
    try:
        marked = mark_for_purge(config.repository, grant, runner, options, clock)
    except BaseException:
        lease.release(grant)
        raise
    # The same holder takes the lease again: nothing comes between the mark and the purge.
    return purging.purge(collected, config, runner, holder, options, clock, partial(find_live, marked))


def acknowledge_alarms(
    uri: str, why: str, who: str | None = None, options: StorageOptions | None = None
) -> list[Alarm]:
    """End the open alarms of a repository: live objects that runs had deleted.

    Args:
        uri: the repository.
        why: why deleting may go on, in the person's words; kept.
        who: None is the login name of this process.
        options: None reads the environment.

    Returns:
        The alarms that were open.

    Raises:
        ConfigError: there is no reason.
        NotFoundError: there is no repository.
        FormatError: an alarm cannot be read.
    """
    state = collected_of(uri, options).state
    reason, found = check_reason(why), open_alarms(state)
    if not found:
        return []
    what = {"alarms": [alarm.alarm_id for alarm in found]}
    said = record_consent(state, ACKNOWLEDGE, uri, reason, what, who)
    return acknowledge(state, Acknowledged(who=said.who, at=said.at, why=said.why))


def collected_of(uri: str, options: StorageOptions | None = None) -> Collected:
    """Describe a repository.

    Args:
        uri: the repository.
        options: None reads the environment.

    Raises:
        NotFoundError: there is no repository.
    """
    spec_version(open_reader(uri, options))  # nothing is written where no repository is
    return Collected(
        repository=uri,
        uri=uri,
        state=open_state(uri, options),
        runs_uri=f"{uri.rstrip('/')}/{RUNS}",
        open_run=partial(open_swept, uri=uri, options=options),
    )
