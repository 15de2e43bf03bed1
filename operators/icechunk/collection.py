"""Tasks of an Icechunk collection, in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.gates import (
    AcquireLeaseOperator,
    ApproveOperator,
    CheckOperator,
    end_run,
    read_grant,
)
from airflow_dredge.operators.icechunk.base import IcechunkOperator, IcechunkSparkOperator, open_run
from airflow_dredge.operators.icechunk.params import ICECHUNK_SCHEDULES
from airflow_dredge.operators.reporting import ReportOperator
from airflow_dredge.operators.run_check import present_variables
from airflow_dredge.operators.spark import PlannedRun
from dredge.errors import ConfigError
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import StepSummary, from_json
from dredge.runs.tasks import LocalRunner
from dredge.settings import truth
from dredge.storage import open_reader

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.icechunk.collection.steps import Run
    from dredge.runs.preflight import Preflight
    from dredge.storage import ObjectWriter

# The steps of a collection are imported inside methods: each task of each DAG imports all operators.


class IcechunkCheckOperator(IcechunkOperator, CheckOperator):
    """Run the preflight of a collection if ``check_only`` is set, as `dredge icechunk check` does.

    :param config: as for ``IcechunkPlanCollectionOperator`` (templated)
    """

    template_fields: Sequence[str] = ("check_only", "storage", "config")

    def __init__(self, *, config: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config

    def ask(self) -> Preflight:
        """Check store and repository."""
        from dredge.icechunk.preflight import check

        return check(CollectConfig.from_params({"storage": self.storage, **self.config}), self.options)


class IcechunkAcquireLeaseOperator(IcechunkOperator, AcquireLeaseOperator):
    """Acquire the lease of a repository; see :class:`AcquireLeaseOperator`."""

    command = "dredge icechunk"
    template_fields: Sequence[str] = ("storage", "run_uri")

    def bound_by(self) -> tuple[ObjectWriter, str, Mapping[str, bool | None]]:
        """Return the state folder, the repository, and the presence of the Variables."""
        from dredge.icechunk.repository import spec_version

        present = present_variables(ICECHUNK_SCHEDULES, "storage", self.storage)
        spec_version(open_reader(self.storage, self.options))  # writes nothing where no repository exists
        return open_state(self.storage, self.options), self.storage, present

    def take(self, holder: str) -> tuple[LeaseGrant, dict[str, Any]]:
        """Acquire the lease."""
        from dredge.icechunk.repository import spec_version

        spec = spec_version(open_reader(self.storage, self.options))
        grant = make_lease(open_state(self.storage, self.options)).acquire(holder)
        return grant, {"storage": self.storage, "spec_version": spec}

    def resume(self, grant: LeaseGrant) -> None:
        """Write the new lease into the run's plan."""
        from dredge.icechunk.collection.steps import Run, resume_run

        resume_run(Run.open(self.run_uri, self.options), self.storage, grant)


class IcechunkPlanCollectionOperator(IcechunkOperator):
    """Make the plan of a collection.

    :param config: settings by name, such as ``{"dry_run": False}``; docs/settings.md lists them. Values may
        be rendered text; an unknown name or invalid value fails the task before it changes anything
        (templated)
    :param lease: XCom of the acquire task (templated)
    :param expiration: XCom of the expiration's plan task: a dry run then reports the deletions of a
        collection after the expiration (templated)
    :param collect: whether to collect; if not, the next tasks are skipped (templated)
    :param mode: ``spark`` or ``local`` (templated)
    """

    template_fields: Sequence[str] = ("storage", "config", "lease", "expiration", "collect", "mode")

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | None = None,
        lease: Any = None,
        expiration: Any = None,
        collect: bool | str = True,
        mode: str = "spark",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.lease = lease
        self.expiration = expiration
        self.collect = collect
        self.mode = mode

    def checked(self) -> CollectConfig:
        """Return the rendered settings as a config."""
        config = CollectConfig.from_params({"storage": self.storage, **(self.config or {})})
        if not config.dry_run or not isinstance(self.expiration, Mapping):
            return config
        return replace(config, after=from_json(Expiration, self.expiration["expiration"]))

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Make the plan and return its run folder."""
        from dredge.icechunk.collection.steps import plan_collection

        if not truth("collect", self.collect):
            return {"run_uri": "", "mode": "none"}
        if self.mode not in ("spark", "local"):
            raise ConfigError(f"mode is {self.mode!r}; valid are spark and local")
        plan = plan_collection(self.checked(), read_grant(self.lease), self.options)
        return {
            "run_id": plan.run_id,
            "run_uri": plan.run_uri,
            "mode": self.mode,
            "cutoff": plan.cutoff.isoformat(),
            "dry_run": plan.config.dry_run,
        }


class IcechunkMarkOperator(IcechunkSparkOperator):
    """Mark live objects, list candidates, and run the safety checks. Deletes nothing."""

    step = "icechunk_mark"

    def work(self, run: Run) -> StepSummary:
        """Run the steps in the worker."""
        from dredge.icechunk.collection.steps import find_garbage

        return find_garbage(run, LocalRunner())

    def read_summary(self, run: PlannedRun) -> StepSummary | None:
        """Return the summary of the safety checks, the job's last step."""
        from dredge.icechunk.collection.outputs import CheckLimitsOutput

        return run.folder.read_summary(CheckLimitsOutput.STEP)


class IcechunkApproveOperator(ApproveOperator):
    """Wait for an approval if the run needs one; see :class:`ApproveOperator`.

    Commands: ``dredge icechunk approve`` and ``dredge icechunk reject``.

    :param aws_conn_id: connection of the object store, as in :class:`IcechunkOperator`
    """

    asks = "Delete the garbage of an Icechunk repository?"

    def __init__(self, *, aws_conn_id: str | None = "aws_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.aws_conn_id = aws_conn_id

    @property
    def steps(self) -> Any:
        """The steps of an Icechunk collection."""
        from dredge.icechunk.collection import steps

        return steps

    def open(self) -> Run:
        """Open the run."""
        return open_run(self.run_uri, self.aws_conn_id)


class IcechunkCollectOperator(IcechunkSparkOperator):
    """Run all unfinished steps, delete the candidates, and verify.

    After a failure the task continues from its ledger. A run that needs an approval deletes nothing without
    one, even if a person marked the approval task as success.
    """

    step = "icechunk_collect"

    def work(self, run: Run) -> StepSummary:
        """Run the steps in the worker."""
        from dredge.icechunk.collection.steps import run_steps

        return run_steps(run, LocalRunner())

    def read_summary(self, run: PlannedRun) -> StepSummary | None:
        """Return the summary of the deletion."""
        from dredge.icechunk.collection.outputs import BulkDeleteOutput

        return run.folder.read_summary(BulkDeleteOutput.STEP)


class IcechunkSaveReportOperator(IcechunkOperator, ReportOperator):
    """Write the report of a collection and release its lease; see :class:`ReportOperator`.

    :param plan: XCom of the plan task (templated)
    """

    step, key = "icechunk_report", "storage"
    template_fields: Sequence[str] = ("storage", "plan")

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Write the report; raise if the collection is not complete."""
        from dredge.icechunk.collection.steps import read_report, release_lease, save_report

        if not isinstance(self.plan, Mapping):
            self.refuse_without_run(context, self.storage)
        if not self.plan["run_uri"]:
            raise AirflowSkipException("this run has no collection to report")
        run = open_run(self.plan["run_uri"], self.aws_conn_id)
        summary = save_report(run)
        # If only failed tasks were cleared, release_lease does not run again, but they renewed the lease.
        release_lease(run)
        where = (run.plan.uri, run.plan.uri, run.plan.run_id)
        return self.conclude(context, *where, summary, lambda: read_report(run))


class IcechunkReleaseLeaseOperator(IcechunkOperator):
    """Release the lease if this run holds it, and stop the run's idle Spark application on this machine.

    :param grant: XCom of the acquire task (templated)
    :param run_uri: folder of the collection; empty without one (templated)
    """

    template_fields: Sequence[str] = ("storage", "grant", "run_uri")

    def __init__(self, *, grant: Any, run_uri: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.grant = grant
        self.run_uri = run_uri

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Release the lease."""
        grant = end_run(self.run_uri, self.grant)
        make_lease(open_state(self.storage, self.options)).release(grant)
        return {"storage": self.storage, "released": grant.fencing}
