"""A planned run in its driver, for all collectors: its steps, their chain of digests, and how a local run is resumed.

    plan ← slice_listing ← mark_uncommitted ← list_committed ← subtract ← check_limits

Every summary has the digests of the step's inputs, and a step reads its inputs before it starts. An unbroken chain
proves without any clock: no input was replaced later, and the steps ran in this order.
"""

import hashlib
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, Self

from dredge.errors import ConfigError, DredgeError, NotFoundError, RefusedError
from dredge.runs.clock import Clock, StoreClock, running_seconds, utc_now
from dredge.runs.failures import as_defects
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.lease import LEASE_MEMBER, Lease, LeaseGrant, hand_over
from dredge.runs.parts import BY_DIGEST, cache_parts
from dredge.runs.payload import PartInfo, Status, StepOutput, StepSummary, to_json
from dredge.runs.report import duration_text
from dredge.runs.tasks import (
    LocalRunner,
    PartitionFunction,
    Stores,
    TaskRunner,
    TooManyRowsError,
    log_progress,
    round_robin,
)
from dredge.runs.tries import StepTry
from dredge.runs.versions import read_pointer
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions, open_reader, open_writer
from dredge.storage.parallel import Ask, at_once

log = logging.getLogger("dredge")


@dataclass(slots=True)
class StepRecord:
    """Notes of a running step; becomes its summary, with payloads in `details` as JSON. `error`: raised after the
    summary was written, for a step without success."""

    inputs: dict[str, StepSummary]
    attempt: StepTry
    counts: dict[str, int] = field(default_factory=dict)
    parts: list[PartInfo] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    status: Status = "success"
    error: Exception | None = None

    def input[O: StepOutput](self, output: type[O]) -> O:
        """Return the result of an input step."""
        return output.of(self.inputs[output.STEP])

    def warn(self, text: str) -> None:
        """Add a sentence to the report, and log it."""
        log.warning(text)
        self.warnings.append(text)

    def add(self, **counts: int) -> None:
        """Add to counts."""
        for name, value in counts.items():
            self.counts[name] = self.counts.get(name, 0) + value


class Ahead[T]:
    """The first reads of a step. They begin while the step claims its try, if its inputs are known by then, and are
    repeated if one of these inputs proves to be of another try."""

    def __init__(self, read: Callable[[Mapping[str, StepSummary]], T]) -> None:
        self._read = read
        self._begun: Future[T] | None = None

    def begin(self, ask: Ask, inputs: Mapping[str, StepSummary]) -> None:
        """Begin to read."""
        self._begun = ask(self._read, inputs)

    def discard(self) -> None:
        """Drop the results of these reads: they are older than an input."""
        self._begun = None

    def result(self, inputs: Mapping[str, StepSummary]) -> T:
        """Return the results of these reads; reads now if they have not begun."""
        return self._read(inputs) if self._begun is None else self._begun.result()


def _complete(
    folder: RunFolder, step: str, found: Mapping[str, StepSummary | None]
) -> dict[str, StepSummary]:
    complete = {}
    for name, summary in found.items():
        if summary is None:
            raise RefusedError(
                f"run {folder.run_id}: step {step} needs the result of {name}, which is not complete."
                f" Nothing was deleted. Run {name} first."
            )
        complete[name] = summary
    return complete


def perform(
    folder: RunFolder,
    step: str,
    inputs: Sequence[str],
    body: Callable[[StepRecord], None],
    clock: Clock,
    right: Callable[[], object] = lambda: None,
    roots: Mapping[str, str] | None = None,
    ahead: Ahead[Any] | None = None,
) -> StepSummary:
    """Run a step unless it is complete with the same inputs.

    The inputs are read before the body starts. So the digest of an input in the summary proves that the input was
    complete before, independent of any clock.

    Args:
        inputs: must be complete; after a change of an input, this step runs again.
        right: called before a try is claimed; raises if this run may not continue, so that it fences off no other try.
        roots: digests of further inputs, by name.
        ahead: reads of the body.

    Returns:
        The stored summary of a complete step, else the new summary.

    Raises:
        RefusedError: an input is missing.
        OvertakenError: there is a later try; this try wrote no result.
        DefectError: an unexpected exception, which is its cause.
    """
    attempt: StepTry | None = None
    try:
        with as_defects(f"step {step} of run {folder.run_id}", folder.uri), ExitStack() as reading:
            known: dict[str, StepSummary] = {}
            if folder.goes_on:  # claims a first try at once: a step without an earlier try has no result
                right()
                known = folder.known_summaries(inputs)
                if ahead is not None and known.keys() == set(inputs):
                    ahead.begin(reading.enter_context(at_once()), known)
                with at_once() as ask:
                    first, settled = ask(StepTry.claim_first, folder.writer, step), ask(folder.settle)
                    found = folder.read_valid_summaries(inputs)
                attempt = first.result()
                if (unwritten := settled.exception()) is not None:
                    folder.forget()  # the summary that could not be written may be that of an input
                    raise unwritten
            else:
                found = folder.read_valid_summaries([*inputs, step])
            stored = found.pop(step, None)
            if folder.goes_on and attempt is None:
                stored = folder.read_summary(step)
            before = _complete(folder, step, found)
            if ahead is not None and before != known:
                ahead.discard()
            digests = {**(roots or {}), **{name: summary.digest for name, summary in before.items()}}
            if stored is not None and dict(stored.inputs) == digests:
                log.info("run %s: %s is done already", folder.run_id, step)
                return stored
            if attempt is None:
                right()
                attempt = StepTry.claim(folder.writer, step)
            started = clock()
            log.info("run %s: %s starts (try %d)", folder.run_id, step, attempt.number)
            record = StepRecord(before, attempt)
            with folder.writing(attempt):
                body(record)
            summary = StepSummary(
                step=step,
                run_id=folder.run_id,
                status=record.status,
                started_at=started,
                finished_at=clock(),
                counts=record.counts,
                parts=tuple(record.parts),
                inputs=digests,
                warnings=tuple(record.warnings),
                details=to_json(record.details),
                try_number=attempt.number,
            )
            folder.write_summary(summary)
    except TooManyRowsError:
        raise
    except Exception as error:
        _note_failure(folder, step, error, clock, attempt)
        raise
    figures = ", ".join(f"{name} {value:,}" for name, value in summary.counts.items())
    log.info("run %s: %s %s after %.1f s: %s", folder.run_id, step, summary.status, summary.seconds, figures)
    if record.error is not None:
        _note_failure(folder, step, record.error, clock, attempt)
        raise record.error
    return summary


def _note_failure(
    folder: RunFolder, step: str, error: Exception, clock: Clock, attempt: StepTry | None
) -> None:
    try:
        folder.settle()
        folder.write_failure(step, error, clock(), attempt)
    except DredgeError as found:
        log.warning("run %s: the failure of %s was not recorded: %s", folder.run_id, step, found)


PLAN = "plan"


def collect_links(outputs: Iterable[type[StepOutput]]) -> dict[str, list[str]]:
    """Return the input steps of each of some steps, and of their inputs; `PLAN` for a step without inputs."""
    links: dict[str, list[str]] = {}
    for output in outputs:
        links |= collect_links(output.INPUTS)
        links[output.STEP] = [item.STEP for item in output.INPUTS] or [PLAN]
    return links


def plan_digest(folder: RunFolder) -> str:
    """Return the SHA-256 of the stored plan without its lease: a resumed run has a new lease."""
    return _digest(folder.read_once(f"{PLAN}.json"))


def _digest(stored: Mapping[str, Any]) -> str:
    plan = {name: value for name, value in stored.items() if name != LEASE_MEMBER}
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def breaks(
    links: Mapping[str, Sequence[str]], summaries: Mapping[str, StepSummary], plan: str
) -> Iterator[str]:
    """Yield the breaks in a chain, as half sentences. `links`: input steps by step; `PLAN` is the plan."""
    digests = {PLAN: plan, **{step: summary.digest for step, summary in summaries.items()}}
    for step, wanted in links.items():
        read = summaries[step].inputs
        if missing := sorted(set(wanted) - read.keys()):
            yield f"{step} did not read {', '.join(missing)}"
        for name, digest in read.items():
            if digests.get(name) != digest:
                yield f"{step} read another result of {name} than the current one"


def check_chain(
    folder: RunFolder,
    step: str,
    links: Mapping[str, Sequence[str]],
    seen: Mapping[str, StepSummary] | None = None,
) -> dict[str, StepSummary]:
    """Read a chain of summaries from the store, and check it. `links`: input steps by step; `PLAN` is the plan. `seen`:
    summaries of the caller; must equal the stored ones. Returns the summaries by step. Raises RefusedError: a step is
    not complete, or the chain is broken."""
    with at_once() as ask:
        plan = ask(folder.read_json, f"{PLAN}.json")
        found = _complete(folder, step, folder.read_valid_summaries(links, reread=True))
    wrong = list(breaks(links, found, _digest(plan.result())))
    for name, summary in (seen or {}).items():
        if name in found and found[name].digest != summary.digest:
            wrong.append(f"{name} was run again in the meantime")
    if wrong:
        raise RefusedError(
            f"run {folder.run_id}: its results do not match: {'; '.join(wrong)}. Nothing (more) was"
            " deleted. Run these steps and the ones after them again, or start a new run."
        )
    return found


_HELD_SECONDS = 60
_KEPT_BYTES = 32 << 20


class RunPlan(Protocol):
    """Fields of every plan."""

    @property
    def run_id(self) -> str:
        """Descending xid of the store's time, newer runs sort first."""

    @property
    def lease(self) -> LeaseGrant:
        """The lease of the run."""

    @property
    def store_uri(self) -> str:
        """URI of the collected storage namespace or repository."""


@dataclass(slots=True)
class PlannedRun[P: RunPlan](ABC):
    """A run with its plan, its folder, and its stores."""

    plan: P
    folder: RunFolder
    reader: ObjectReader
    state: ObjectWriter  # on the folder with lease and index
    clock: Clock = utc_now
    # store options of the driver; tasks read theirs from their environment
    options: StorageOptions | None = None
    _store_clock: StoreClock = field(init=False, repr=False, compare=False)
    _held_at: float | None = field(default=None, repr=False, compare=False)
    _ask: Ask | None = field(default=None, repr=False, compare=False)
    # reads of later steps by the step's name
    _early: dict[str, Future[Any]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._store_clock = StoreClock(self.state, self.clock)

    @property
    @abstractmethod
    def lease(self) -> Lease:
        """The repository's lease."""

    @property
    def tasks_per_core(self) -> int:
        """Number of tasks for each core; several reduce the delay of a slow one."""
        return 1

    def store_now(self) -> datetime:
        """Return the object store's time."""
        return self._store_clock.now()

    def step(
        self,
        output: type[StepOutput],
        body: Callable[[StepRecord], None],
        inputs: Sequence[type[StepOutput]] | None = None,
        ahead: Ahead[Any] | None = None,
    ) -> StepSummary:
        """Run a step under the run's lease; see `perform`. `inputs`: for a step whose inputs depend on the run; None
        takes the output's. Raises LeaseHeldError if another run has the lease."""

        def under_lease(record: StepRecord) -> None:
            with self.lease.kept(self.plan.lease, record.attempt.is_newest):
                body(record)

        def hold_lease() -> None:
            held_at, now = self._held_at, running_seconds()
            if not self.folder.goes_on or held_at is None or now - held_at > _HELD_SECONDS:
                self.lease.hold(self.plan.lease, self.clock())
                self._held_at = now

        # The first step of a chain reads nothing but the plan.
        read = [item.STEP for item in (output.INPUTS if inputs is None else inputs)]
        with self.folder.keeping():
            roots = {} if read else {PLAN: plan_digest(self.folder)}
            return perform(self.folder, output.STEP, read, under_lease, self.clock, hold_lease, roots, ahead)

    def check_right(self, now: datetime) -> None:
        """Check the lease and the try before a file outside of the run's folder is replaced. Raises OvertakenError:
        there is a later try; LeaseHeldError: the lease is lost."""
        with at_once() as ask:
            lease = ask(self.lease.check, self.plan.lease, now)
            if self.folder.attempt is not None:
                self.folder.attempt.check()
        lease.result()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Run several steps in this process; see `RunFolder.keeping`. Immutable files of the store are read once."""
        try:
            with (
                self.folder.keeping(goes_on=True),
                cache_parts(self.reader.uri, _KEPT_BYTES),
                cache_parts(BY_DIGEST, _KEPT_BYTES),
                at_once() as ask,
            ):
                ask(self.store_now)  # the first step that needs the store's clock finds it read
                self._ask = ask
                yield
        finally:
            self._held_at = self._ask = None

    def begin[R](self, step: str, read: Callable[[], R]) -> None:
        """Begin reads of a later step beside this one, if this process runs both."""
        if self._ask is not None:
            self._early[step] = self._ask(read)

    def begun(self, step: str) -> Future[Any] | None:
        """Return the reads of a step, once, if they were begun."""
        return self._early.pop(step, None)

    def spread[C, T, R](
        self,
        runner: TaskRunner,
        step: str,
        fn: PartitionFunction[C, T, R],
        config: C,
        tasks: Sequence[T],
        unit: str,
        total: int | None = None,
    ) -> list[R]:
        """Run a partition function over tasks, and log progress. `tasks`: one for each call; may be empty. `total`:
        number of units; None if unknown. Returns the results in the order of the tasks. Raises TooManyRowsError: of a
        LocalRunner with a limit."""
        if not tasks:
            return []
        limit = runner.rows_max if isinstance(runner, LocalRunner) else None
        if limit is not None and (total or 0) > limit:
            raise TooManyRowsError(f"{step} has {total:,} {unit}, more than {limit:,}")
        if not (isinstance(runner, LocalRunner) and runner.processes == 0):
            self.folder.settle()  # tasks in other processes may read what the driver wrote
        with log_progress(self.folder, step, unit, total) as progress:
            stores = Stores(
                run_uri=self.folder.uri,
                run_id=self.folder.run_id,
                attempt=None if self.folder.attempt is None else self.folder.attempt.named,
                store_uri=self.plan.store_uri,
                state_uri=self.state.uri,
                progress=progress,
            )
            return fn.spread(runner, step, stores, config, tasks)

    def num_tasks(self, runner: TaskRunner, items: int) -> int:
        """Return the number of tasks for a number of items."""
        return max(1, min(items, runner.default_parallelism * self.tasks_per_core))

    def shares[T](self, runner: TaskRunner, items: Sequence[T], some: int = 1) -> list[list[T]]:
        """Share items among tasks, about `some` items or more for each."""
        return round_robin(items, self.num_tasks(runner, -(-len(items) // some)))


class CollectionPlan(RunPlan, Protocol):
    """Fields of the plans of collections."""

    @property
    def state_etag(self) -> str | None:
        """ETag of the state's pointer when the run was planned; None without one."""

    @property
    def repository(self) -> str:
        """Name of the repository."""


@dataclass(slots=True)
class CollectionRun[P: CollectionPlan](PlannedRun[P]):
    """A run that builds on the state of earlier runs."""

    @classmethod
    def _open(
        cls,
        run_uri: str,
        options: StorageOptions | None,
        clock: Clock,
        plan: P | None,
        read: Callable[[str, StorageOptions | None], P],
        open_state: Callable[[str, StorageOptions | None], ObjectWriter],
        **more: Any,
    ) -> Self:
        # A caller with a plan has just written it, under its lease.
        written, held_at = (
            ({}, None) if plan is None else ({f"{PLAN}.json": to_json(plan)}, running_seconds())
        )
        plan = plan or read(run_uri, options)
        return cls(
            plan=plan,
            folder=RunFolder(open_writer(run_uri, options), plan.run_id, written=written),
            reader=open_reader(plan.store_uri, options),
            state=open_state(plan.store_uri, options),
            clock=clock,
            options=options,
            _held_at=held_at,
            **more,
        )

    def refuse_other_state(self) -> None:
        """Refuse to continue after another run has advanced the state."""
        etag, advanced_by = read_pointer(self.state)
        if etag != self.plan.state_etag and advanced_by != self.plan.run_id:
            raise RefusedError(
                f"run {self.plan.run_id} cannot continue: another run was completed since it was planned. Nothing was"
                " changed. Start a new run."
            )


def write_plan(
    plan: RunPlan, run_uri: str, options: StorageOptions | None, lease: Lease, keep_lease: bool
) -> None:
    """Write the plan of a run into its new folder. If that fails, the lease is released, unless `keep_lease`: the
    caller's orchestrator has it."""
    try:
        data = json.dumps(to_json(plan), indent=1, sort_keys=True).encode()
        open_writer(run_uri, options).put_if_absent(f"{PLAN}.json", data)
    except DredgeError:
        if not keep_lease:
            with suppress(DredgeError):
                lease.release(plan.lease)
        raise


def read_stored_plan[P](
    run_uri: str, parse: Callable[[object], P], options: StorageOptions | None = None
) -> P:
    """Read the plan of a run. Raises ConfigError: no such run."""
    try:
        return parse(read_json(open_writer(run_uri, options), f"{PLAN}.json"))
    except NotFoundError:
        raise ConfigError(
            f"{run_uri} has no {PLAN}.json: it is not the folder of a run. `runs` lists those folders."
        ) from None


def release_lease(run: PlannedRun[Any]) -> None:
    """Release a run's lease, unless another run holds it now."""
    run.lease.release(run.plan.lease)


def resume_run(run: CollectionRun[Any], repository: str, grant: LeaseGrant) -> bool:
    """Hand a run a new lease of the same holder. Returns False for a run of another holder or repository, or with a
    later lease. Raises UnavailableError: other processes replace the plan all the time."""
    if run.plan.repository != repository or not hand_over(run.folder.writer, f"{PLAN}.json", grant):
        return False
    log.info("run %s is resumed under lease number %d", run.plan.run_id, grant.fencing)
    return True


def local_holder(run_id: str) -> str:
    """Return the lease holder of a run without an orchestrator."""
    return f"run {run_id}"


def is_local(run: PlannedRun[Any]) -> bool:
    """Whether a run has no orchestrator."""
    return bool(run.plan.lease.holder == local_holder(run.plan.run_id))


def resume_local(run: CollectionRun[Any]) -> None:
    """Take the lease of a local run again, and write it into the plan. Raises ConfigError: the run has an orchestrator;
    LeaseHeldError: another run is in progress; RefusedError: another run was completed in between, or another process
    resumed this one."""
    holder = run.plan.lease.holder
    if not is_local(run):
        raise ConfigError(
            f"{run.folder.uri} is a run of {holder}. Nothing was changed. Clear its tasks in Airflow; they continue"
            " after the last complete step."
        )
    grant = run.lease.acquire(holder)
    try:
        run.refuse_other_state()
        if not hand_over(run.folder.writer, f"{PLAN}.json", grant):
            raise RefusedError(
                f"another process resumes run {run.plan.run_id}. Nothing was changed. Wait for its end."
            )
    except Exception:
        with suppress(DredgeError):  # otherwise it expires
            run.lease.release(grant)
        raise


def reopen[R: CollectionRun[Any]](open_run: Callable[[], R]) -> R:
    """Take the lease of a local run again, and open the run with it; raises as `resume_local`."""
    resume_local(open_run())
    return open_run()


def check_resumable(run: CollectionRun[Any]) -> None:
    """Check whether `resume_local` would succeed now. No changes. Raises LeaseHeldError: another run is in progress;
    RefusedError: another run was completed in between."""
    run.lease.check_free(run.plan.lease.holder)
    run.refuse_other_state()


def refuse_old_mark(run: CollectionRun[Any]) -> None:
    """Refuse a sweep of an old mark. Raises RefusedError: the mark is older than its settings allow."""
    age = run.store_now() - run.plan.created_at  # the store's time before the mark
    age_max = timedelta(hours=run.plan.config.safety.mark_age_hours_max)
    if age > age_max:
        raise RefusedError(
            f"run {run.plan.run_id} was planned {duration_text(age)} ago; a mark older than {duration_text(age_max)} is"
            " not swept. Nothing (more) was deleted. Start a new run."
        )
