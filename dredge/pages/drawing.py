"""The values of each page, for its template.

Pages read runs through `Places`, and other facts through `Facts`. They only read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from dredge.errors import ConfigError, DredgeError, FormatError, NotFoundError, UnavailableError
from dredge.gc.subtract import REASONS
from dredge.pages import history, places, restoring
from dredge.pages.history import ENDED, lease_of, plan_of, progress_of, report_of, run_of_holder, uri_of
from dredge.pages.object_rows import Filter, file_body
from dredge.pages.objects import SORTS, Objects, outcomes_of, why
from dredge.pages.trash import WantedFindings, trash_page
from dredge.runs.clock import Clock, utc_now
from dredge.runs.report import COLUMNS, render, size_text
from dredge.storage.parallel import ordered_map

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none';"
        " base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_HERE = Path(__file__).parent
_ONGOING = ("unfinished", "awaiting_approval")
_PLACES_AT_ONCE = 8
_STATUS: tuple[tuple[type[DredgeError], int], ...] = (
    (NotFoundError, 404),
    (UnavailableError, 503),
    (places.NotAllowedError, 403),
)


class Pages:
    """Draws the pages. `asker`: answers "why"; None without a lakeFS server."""

    def __init__(
        self, places: places.Places, asker: places.ServerAsker | None = None, clock: Clock = utc_now
    ) -> None:
        self._places = places
        self._asker = asker
        self._clock = clock

    def overview(self, request: Request, known: places.Facts) -> Response:
        """A row for each repository."""
        stands = list(ordered_map(history.standing, self._places.all(), _PLACES_AT_ONCE))
        now = self._clock()
        days = history.by_day([run for item in stands for run in item.runs], now)
        total = sum(size for _, size in days)
        return self._page(
            request,
            "overview",
            stands=[_overview_row(item, now, known) for item in stands],
            problems=self._places.problems(),
            known=known,
            total=size_text(total),
            days=history.CHART_DAYS,
            by_day=[(day, size_text(size)) for day, size in reversed(days) if size],
            chart={"labels": [day for day, _ in days], "bytes": [size for _, size in days]} if total else {},
        )

    def place_of(self, key: str) -> places.Place:
        """Find a place; raises NotFoundError for an unknown key."""
        return places.find(self._places, key)

    def place(self, request: Request, key: str, known: places.Facts) -> Response:
        """A repository: its runs, the findings of the newest report, and the next run."""
        found = places.find(self._places, key)
        stand = history.standing(found)
        newest = next((run for run in stand.runs if run.outcome in ENDED), None)
        report = {} if newest is None or found.kind == places.KV else report_of(found, newest.run_id)
        schedules = known.schedules_of(found)
        keeping, problem = self._keeping(found, schedules)
        return self._page(
            request,
            "place",
            stand=stand,
            place=found,
            newest=newest,
            sections=report.get("sections", []),
            reclaimed=stand.reclaimed(),
            chart=history.run_bars(stand.runs),
            keeping=keeping,
            keeping_problem=problem,
            line_days=history.LINE_DAYS,
            schedules=schedules,
            known=known,
            expirations=history.expirations_of(found) if not stand.error else [],
        )

    def gaps(self, request: Request, place: places.Place, gaps: Sequence[places.Gaps]) -> Response:
        """Intervals of a repository's schedules without a run; the repository's page also loads them."""
        return self._page(request, "gaps", place=place, gaps=gaps)

    def run(self, request: Request, key: str, run_id: str, known: places.Facts) -> Response:
        """A run: its progress while it is running, then its report."""
        found = places.find(self._places, key)
        report, plan = _as_of_now(found, run_id), plan_of(found, run_id)
        rows = [[(column, column.text(row)) for column in COLUMNS] for row in report["rows"]]
        deletes = found.kind in restoring.UNDOING and bool(report["counts"].get("deleted_objects"))
        return self._page(
            request,
            "run",
            place=found,
            run_id=run_id,
            report={"held": [], "over_limit": [], "sections": [], **report},
            rows=rows,
            columns=COLUMNS,
            verdicts=[row["verdict"] for row in report["rows"]],
            ongoing=report["outcome"] in _ONGOING,
            progress=progress_of(found, run_id, report),
            holder=_holder(plan),
            airflow_run=_airflow_run(plan, known),
            chart=_shares(report),
            can_restore=deletes,
            restores=restoring.restores_of(found, run_id),
        )

    def trash(
        self,
        request: Request,
        key: str,
        run_id: str,
        wanted: WantedFindings,
        start: str,
        known: places.Facts,
        started: str,
    ) -> Response:
        """A run of the trash cleaner."""
        found = places.find(self._places, key)
        uri_of(found, run_id)
        report = report_of(found, run_id)
        try:
            values = trash_page(report, wanted, int(start) if start.isdecimal() else 0)
            values["removed"] = restoring.removed_by(report)
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"the report of run {run_id} is damaged: {error!r}") from None
        return self._page(
            request, "trash", place=found, run_id=run_id, known=known, started=started, **values
        )

    def state(self, key: str, run_id: str) -> dict[str, Any]:
        """The state of a running run, for polling."""
        found = places.find(self._places, key)
        report = _as_of_now(found, run_id)
        return {
            "outcome": report["outcome"],
            "outcome_text": report["outcome_text"],
            "headline": report["headline"],
            "ongoing": report["outcome"] in _ONGOING,
            "progress": progress_of(found, run_id, report),
            "steps": [
                {name: step[name] for name in ("step", "status", "seconds")} for step in report["steps"]
            ],
        }

    def report(self, key: str, run_id: str) -> dict[str, Any]:
        """The report as JSON."""
        return report_of(places.find(self._places, key), run_id)

    def run_of_dag(self, request: Request, dag: str, run: str) -> Response:
        """Redirect from a DAG run to the page of its run."""
        holder = f"{dag} {run}"
        for place in self._places.all():
            try:
                run_id = run_of_holder(place, holder)
            except DredgeError:
                continue  # an unavailable store hides only its own runs
            if run_id is not None:
                return RedirectResponse(f"place/{place.key}/run/{run_id}", headers=HEADERS)
        problems = self._places.problems()
        status = 503 if problems else 404
        return self._page(request, "nothing", status=status, dag=dag, run=run, problems=problems)

    def objects(
        self, request: Request, key: str, run_id: str, wanted: Filter, start: str, sort: str
    ) -> Response:
        """Objects of a run."""
        found = places.find(self._places, key)
        objects = Objects(found, run_id)
        page = objects.page(wanted, sort, start)
        rows = [
            {**row, "why": why(row), "size_text": size_text(row["size"])} for row in page.rows.to_pylist()
        ]
        asked = {name: value for name, value in asdict(wanted).items() if value not in ("", None)}
        ordered = {**asked, **({"sort": sort} if sort else {})}
        return self._page(
            request,
            "objects",
            place=found,
            run_id=run_id,
            rows=rows,
            wanted=wanted,
            sort=sort,
            sorts=SORTS,
            total=objects.num_rows,
            looked_at=page.looked_at,
            settled=objects.is_settled,
            start=start,
            first=urlencode(ordered),
            onwards=urlencode({**ordered, "start": page.next}) if page.next else "",
            query=urlencode(asked),
            reasons=REASONS if found.kind == places.LAKEFS else {},
            outcomes=outcomes_of(objects),
            owned=objects.owned() if wanted.branch else None,
            can_ask=self._asker is not None and bool(found.store_uri) and found.kind == places.LAKEFS,
        )

    def download(self, key: str, run_id: str, wanted: Filter, form: str) -> Response:
        """The selected objects of a run, as a file."""
        objects = Objects(places.find(self._places, key), run_id)
        body, kind = file_body(objects.all(wanted), form)
        name = f'attachment; filename="{run_id}.{form}"'
        return StreamingResponse(body, media_type=kind, headers={**HEADERS, "Content-Disposition": name})

    def restore(
        self,
        request: Request,
        key: str,
        run_id: str,
        known: places.Facts,
        asked: Mapping[str, str],
        started: str,
    ) -> Response:
        """The preview of a restore, with the button that starts it."""
        found = places.find(self._places, key)
        choice, problem, status = None, "", 200
        if any(asked.get(name) for name in restoring.CHOOSING):
            try:
                choice = restoring.choice_of(found, restoring.config_of(found, run_id, asked))
            except ConfigError as error:
                problem, status = str(error), 400
        return self._page(
            request,
            "restore",
            status=status,
            place=found,
            run_id=run_id,
            asked=asked,
            choice=choice,
            problem=problem,
            started=started,
            undoing=restoring.undoing_of(found),
            known=known,
            restores=restoring.restores_of(found, run_id),
            command=restoring.command_of(found, run_id, asked),
        )

    def restore_settings(self, key: str, run_id: str, kind: str, asked: Mapping[str, str]) -> dict[str, Any]:
        """The settings of a restore, from a form."""
        found = places.find(self._places, key)
        if found.kind != kind:
            raise NotFoundError("there is no such run")
        config = restoring.config_of(found, run_id, asked)
        if not restoring.choice_of(found, config).objects:
            raise ConfigError("no deletion of the run matches the filter. Nothing was restored.")
        return restoring.params_of(found, config)

    def row_restore_settings(
        self, key: str, run_id: str, partition: str, known: places.Facts
    ) -> dict[str, Any]:
        """The settings of a restore of rows, from a form; raises as `row_settings_of`."""
        return restoring.row_settings_of(places.find(self._places, key), run_id, partition, known)

    def expiration(self, request: Request, key: str, plan_id: str) -> Response:
        """The plan of an expiration, with the history before and after it."""
        found = places.find(self._places, key)
        plan, past = history.expiration_of(found, plan_id), history.history_of(found, plan_id)
        return self._page(request, "expiration", place=found, plan_id=plan_id, plan=plan, history=past)

    def why(self, request: Request, what: str, place: str) -> Response:
        """The reasons for keeping an object."""
        choices = [item for item in self._places.all() if item.kind == places.LAKEFS and item.store_uri]
        lines: list[str] = []
        problem = ""
        if what and self._asker is not None:
            chosen = places.find(self._places, place) if place else None
            try:
                lines = self._asker.lines(what, chosen)
            except (ConfigError, NotFoundError) as error:
                problem = str(error)
        return self._page(
            request,
            "why",
            400 if problem else 200,
            what=what,
            problem=problem,
            chosen=place,
            choices=choices,
            lines=lines,
            can_ask=self._asker is not None,
        )

    def error(self, request: Request, error: DredgeError) -> Response:
        """The page of an error."""
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        if status == 500 and error.exit_code == 2:
            status = 400
        key = request.path_params.get("key", "")
        return self._page(
            request,
            "error",
            status=status,
            message=str(error),
            kind=error.kind,
            what_to_do=error.what_to_do if status >= 500 else "",
            back=f"place/{quote(key, '')}" if "run_id" in request.path_params else "",
        )

    def _keeping(
        self, place: places.Place, schedules: Sequence[places.Schedule]
    ) -> tuple[history.Keeping | None, str]:
        settings = schedules[0].settings if schedules else None
        try:
            return history.keeping_of(place, self._clock(), settings), ""
        except DredgeError as error:
            return None, str(error)

    def _page(self, request: Request, name: str, status: int = 200, **values: Any) -> Response:
        depth = request.url.path.removeprefix(request.scope.get("root_path", "")).strip("/").count("/")
        body = render(
            _HERE / "templates" / f"{name}.html.j2",
            base="../" * depth or "./",
            kinds=places.KINDS,
            size_text=size_text,
            **values,
        )
        return HTMLResponse(body, status, headers=HEADERS)


def _as_of_now(place: places.Place, run_id: str) -> dict[str, Any]:
    """The report of a run; an unfinished run with the lease counts as running."""
    report = report_of(place, run_id)
    if report["outcome"] == "unfinished" and _has_lease(place, _holder(plan_of(place, run_id))):
        return {**report, "outcome_text": history.AT_WORK, "what_to_do": ""}
    return report


def _has_lease(place: places.Place, holder: str) -> bool:
    lease = lease_of(place)
    return lease is not None and lease.holder == holder


def _holder(plan: Mapping[str, Any]) -> str:
    return str(plan.get("lease", {}).get("holder", ""))


def _airflow_run(plan: Mapping[str, Any], known: places.Facts) -> str:
    """The address of the run in Airflow; "" for other runs."""
    dag, _, run = _holder(plan).partition(" ")
    return f"dags/{quote(dag, '')}/runs/{quote(run, '')}" if known.is_airflow and run else ""


def _overview_row(stand: history.Standing, now: datetime, known: places.Facts) -> dict[str, Any]:
    return {
        "stand": stand,
        "recent": stand.reclaimed(now - history.RECENT),
        "always": stand.reclaimed(),
        "left": stand.not_deleted,
        "next": known.next_of(stand.place),
        "unplanned": _unplanned(known.schedules_of(stand.place)),
    }


def _unplanned(schedules: Sequence[places.Schedule]) -> str:
    if not schedules:
        return "manual"
    return "switched off" if all(item.is_off for item in schedules) else "after the current run"


def _shares(report: dict[str, Any]) -> dict[str, Any]:
    rows = [row for row in report["rows"] if row["size_bytes"] and not row["why"].startswith("of these")]
    return {
        "labels": [f"{row['kind']}: {row['verdict']}" for row in rows],
        "bytes": [row["size_bytes"] for row in rows],
        "verdicts": [row["verdict"] for row in rows],
    }
