"""Commands that both collectors have: runs, reports, checks, purges, pins, alarms, and statements of a person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from dredge.commands import printing
from dredge.commands.statements import answer_commands, forget_variable_command
from dredge.runs.failures import closing_with
from dredge.runs.run import reopen
from dredge.runs.tasks import LocalRunner, TaskRunner
from dredge.undo.leftovers import OUTCOMES

if TYPE_CHECKING:
    from dredge.storage import ObjectWriter


@dataclass(frozen=True, kw_only=True)
class Collector:
    """A collector, for its commands. Its functions import large modules when they are called."""

    group: str
    metavar: str  # of the argument with the repository
    setting: str  # with the repository
    repository: str  # an example, like `run`, the URI of a run's folder
    run: str
    services: str  # of which one may be unavailable
    steps: str  # module with its steps, imported by the first command that needs it
    runs: str  # folder of runs inside a repository
    config: Any
    purge_config: Any
    open_state: Callable[[str], ObjectWriter]
    read_report: Callable[[str], dict[str, Any]]
    # does the remaining steps of a run; None is that of `steps`
    to_its_end: Callable[[Any, TaskRunner], object] | None = None
    # lists others than collections: their JSON, and their lines; takes the URI and the limit
    more_runs: Callable[[str, int], tuple[dict[str, Any], list[str]]] = lambda _uri, _limit: ({}, [])

    @property
    def module(self) -> Any:
        """The module with its steps."""
        return import_module(self.steps)

    def finish(self, run: Any, processes: int, as_json: bool) -> None:
        """Do the remaining steps of a local run, and show its report, also when a step fails."""
        uri = run.plan.run_uri

        def show() -> None:
            printing.show_report(self.read_report(uri), as_json, uri)

        with (
            printing.print_resume(f"dredge {self.group}", uri),
            closing_with(show, "showing the report"),
            LocalRunner(processes) as runner,
        ):
            (self.to_its_end or self.module.to_its_end)(run, runner)

    def command(self, name: str, text: str) -> Callable[[Callable[..., None]], click.Command]:
        """Make a command; its help is a text with fields of this collector in braces."""
        words = {name: getattr(self, name) for name in ("group", "metavar", "repository", "run")}
        return click.command(name, help=text.format(services=self.services, **words))


def add_commands(group: click.Group, collector: Collector) -> None:
    """Add the commands of both collectors to the group of one."""
    repository = click.argument("repository", metavar=collector.metavar)
    run = click.argument("uri", metavar="RUN")
    without = (collector.setting, "dry_run")

    @collector.command("runs", _RUNS)
    @click.argument("uri", metavar="URI")
    @click.option("--limit", default=20, show_default=True, help="Newest runs to show; 0 is all.")
    @printing.JSON
    def runs(uri: str, limit: int, as_json: bool) -> None:
        more, lines = collector.more_runs(uri, limit)
        printing.show_runs(
            printing.list_runs(uri, collector.runs, limit, collector.read_report), uri, as_json, more
        )
        for line in () if as_json else lines:
            click.echo(line)

    @collector.command("report", _REPORT)
    @run
    @printing.json_option("The whole report as one JSON object.")
    def report(uri: str, as_json: bool) -> None:
        found = collector.read_report(uri.rstrip("/"))
        printing.show_report(found, as_json)
        raise SystemExit(printing.exit_code(found))

    @collector.command("resume", _RESUME)
    @run
    @printing.PROCESSES
    @printing.QUIET
    @printing.json_option("The whole report as one JSON object.")
    def resume(uri: str, processes: int, quiet: bool, as_json: bool) -> None:
        printing.show_progress(quiet)
        run = reopen(lambda: collector.module.Run.open(uri.rstrip("/")))
        collector.finish(run, processes, as_json)

    @collector.command("check", _CHECK)
    @repository
    @printing.setting_options(collector.config, without=(*without, "approvers"))
    @printing.JSON
    def check(repository: str, as_json: bool, **settings: Any) -> None:
        asked = printing.given(settings) | {collector.setting: repository, "dry_run": False}
        printing.show_preflight(collector.module.check(collector.config.from_params(asked)), as_json)

    @collector.command("purge", _PURGE)
    @repository
    @click.option("--apply", is_flag=True, help="Delete copies and versions (default: only list).")
    @printing.setting_options(collector.purge_config, without=without)
    @printing.PROCESSES
    @printing.JSON
    def purge(repository: str, apply: bool, processes: int, as_json: bool, **settings: Any) -> None:
        asked = printing.given(settings) | {collector.setting: repository, "dry_run": not apply}
        config = collector.purge_config.from_params(asked)
        printing.show_progress(quiet=False)
        with LocalRunner(processes) as runner:
            printing.show_outcomes(collector.module.purge(config, runner), OUTCOMES, as_json)

    @collector.command("pins", _PINS)
    @repository
    @click.option("--end", metavar="PIN", help="End this pin now: the next runs may delete its objects.")
    @printing.JSON
    def pins(repository: str, end: str | None, as_json: bool) -> None:
        printing.show_pins(collector.open_state(repository), repository, end, as_json)

    @collector.command("acknowledge", _ACKNOWLEDGE)
    @repository
    @printing.ACKNOWLEDGE_REASON
    @printing.BY
    @printing.JSON
    def acknowledge(repository: str, reason: str | None, by: str | None, as_json: bool) -> None:
        printing.show_alarms(collector.open_state(repository), repository, reason, by, as_json)

    for added in (
        *(runs, report, resume, check, purge, pins, acknowledge),
        *answer_commands(collector.group, collector.run, collector.steps),
        forget_variable_command(
            collector.group, collector.metavar, collector.repository, collector.open_state
        ),
    ):
        group.add_command(added)


_RUNS = """List the runs of a repository, newest first.

URI is the repository's storage namespace, such as s3://bucket/repo, an Icechunk repository, or a run root. Stores are
reached by the usual AWS_… variables.

\b
Examples:
  dredge {group} runs s3://bucket/repo --limit 5

\b
Exit codes: 0 listed (also when there are none) · 2 bad input · 4 the store is not available
"""
_REPORT = """Show the report of a run. Also works during the run and after it failed.

RUN is the URI of the run's folder, as `dredge {group} runs` shows it.

\b
Examples:
  dredge {group} report {run} --json

\b
Exit codes: 0 the run is a success, a dry run or in progress · 1 it failed or deleted only a part
            2 no such run · 3 a guard refused it, it awaits approval, or was rejected
            4 the store is not available
"""
_RESUME = """Continue a run of the command line after its approval, or after a step failed.

Servers and stores are found as when it was started.

\b
Examples:
  dredge {group} resume {run}

\b
Exit codes: those of the command that started the run
"""
_CHECK = """Check everything that a collection of {metavar} needs, within 20 seconds.

Servers and stores are found as by a run, and so are settings. Nothing is changed: a small object is written in two
folders, to try the rights, and removed again.

\b
Examples:
  dredge {group} check {repository}
  dredge {group} check {repository} --undo versions --json

\b
Exit codes: 0 all is well, or there are warnings · 2 bad input · 3 there are errors: a run would fail
"""
_PURGE = """Permanently delete old copies and versions of deleted objects. Without --apply, only list them.

Only copies and versions in the ledgers of runs are deleted: copies below the run folders, and versions right below
the delete markers. Current versions and pinned objects stay.

\b
Examples:
  dredge {group} purge {repository}

\b
Exit codes: 0 done, or shown · 2 bad input, or no such run · 3 another run is in progress
            4 {services} is not available, or some deletions failed: purge again
            5 a file cannot be trusted: nothing was deleted · 6 no such repository
"""
_PINS = """List pins: restored objects that runs keep until a date, with the reason.

\b
Examples:
  dredge {group} pins {repository}

\b
Exit codes: 0 listed, or ended · 2 no such pin · 4 {services} is not available · 5 a pin cannot be read
            6 no such repository
"""
_ACKNOWLEDGE = """End the alarms of a repository: a run deleted live objects. No run deletes until you end them.

Without --reason it lists alarms: number of objects, the deleting run, and restored objects. An acknowledged object
raises no second alarm, unless another run deletes it.

\b
Examples:
  dredge {group} acknowledge {repository}
  dredge {group} acknowledge {repository} --reason "the clone on the same bucket is stopped, all objects are back"

\b
Exit codes: 0 acknowledged, or no alarm is open · 2 bad input · 4 {services} is not available
            5 an alarm cannot be read · 6 no such repository · 10 an alarm is open
"""
