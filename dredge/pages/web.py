"""The pages' addresses: `make_router` gives them, `make_app` serves them alone.

    /                                           overview
    /place/{key}                                a repository
    /place/{key}/run/{run_id}                   a run; …/state for polling, …/report as JSON
    /place/{key}/run/{run_id}/objects           its objects; …/objects.csv, …/objects.parquet
    /run?dag=…&run=…                            leads from a DAG run to its page
    /why                                        what keeps an object

Every one is a GET and only reads. Links are relative, so that the pages work below any path.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from dredge.errors import ConfigError, DredgeError, NotFoundError, UnavailableError
from dredge.gc.subtract import REASONS
from dredge.pages import downloads
from dredge.pages.figures import CHART_DAYS, RECENT, Standing, by_day, run_bars, standing
from dredge.pages.history import ENDED, plan_of, report_of, run_of_holder
from dredge.pages.objects import Filter, Objects, outcomes_of, why
from dredge.pages.places import KINDS, Places, find
from dredge.pages.questions import Asker
from dredge.runs.clock import Clock, utc_now
from dredge.runs.defects import defect
from dredge.runs.pages import render
from dredge.runs.report_rows import COLUMNS
from dredge.runs.words import size_text

log = logging.getLogger("dredge")

STATIC = frozenset({"chart.umd.min.js", "icon.svg", "pages.css", "pages.js", "theme.js"})
_HERE = Path(__file__).parent
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none';"
        " base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_ONGOING = ("unfinished", "awaiting_approval")

type PageOf = Annotated[str, Query(max_length=4000)]


def _wanted(
    prefix: PageOf = "",
    reason: PageOf = "",
    outcome: PageOf = "",
    size_min: PageOf = "",
    size_max: PageOf = "",
) -> Filter:
    """Which objects an address asks for; a form sends fields that were left empty, too."""
    return Filter(prefix, reason, outcome, _number(size_min), _number(size_max))


type Wanted = Annotated[Filter, Depends(_wanted)]


class Pages:
    """Draws the pages.

    Args:
        places: which there are.
        asker: answers "why"; None where no lakeFS server is known.
        airflow: whether Airflow is around the pages, so that links may lead to it.
        clock: this machine's.
    """

    def __init__(
        self, places: Places, asker: Asker | None = None, airflow: bool = False, clock: Clock = utc_now
    ) -> None:
        self._places = places
        self._asker = asker
        self._airflow = airflow
        self._clock = clock

    def overview(self, request: Request) -> Response:
        """A row for each repository."""
        stands = [standing(place) for place in self._places.all()]
        now = self._clock()
        runs = [run for item in stands for run in item.runs]
        days = by_day(runs, now)
        return self._page(
            request,
            "overview",
            stands=[_overview_row(item, item.reclaimed(now - RECENT)) for item in stands],
            total=size_text(sum(size for _, size in days)),
            days=CHART_DAYS,
            chart={"labels": [day for day, _ in days], "bytes": [size for _, size in days]},
        )

    def place(self, request: Request, key: str) -> Response:
        """A repository: its runs, and what the newest report found."""
        found = find(self._places, key)
        stand = standing(found)
        newest = next((run for run in stand.runs if run.outcome in ENDED), None)
        sections = [] if newest is None else report_of(found, newest.run_id).get("sections", [])
        return self._page(
            request,
            "place",
            stand=stand,
            place=found,
            newest=newest,
            sections=sections,
            reclaimed=stand.reclaimed(),
            chart=run_bars(stand.runs),
        )

    def run(self, request: Request, key: str, run_id: str) -> Response:
        """A run: live while it works, then its report."""
        found = find(self._places, key)
        report, plan = report_of(found, run_id), plan_of(found, run_id)
        rows = [[(column, column.text(row)) for column in COLUMNS] for row in report["rows"]]
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
            holder=plan.get("lease", {}).get("holder", ""),
            airflow_run=self._airflow_run(plan),
            chart=_shares(report),
        )

    def state(self, key: str, run_id: str) -> dict[str, Any]:
        """What a page asks for again and again while a run works."""
        report = report_of(find(self._places, key), run_id)
        return {
            "outcome": report["outcome"],
            "outcome_text": report["outcome_text"],
            "headline": report["headline"],
            "ongoing": report["outcome"] in _ONGOING,
            "steps": [
                {name: step[name] for name in ("step", "status", "seconds")} for step in report["steps"]
            ],
        }

    def report(self, key: str, run_id: str) -> dict[str, Any]:
        """The report as JSON."""
        return report_of(find(self._places, key), run_id)

    def run_of_dag(self, request: Request, dag: str, run: str) -> Response:
        """Lead from a DAG run to the page of what it planned."""
        holder = f"{dag} {run}"
        for place in self._places.all():
            try:
                run_id = run_of_holder(place, holder)
            except DredgeError:
                continue  # a store that is down hides its own runs only
            if run_id is not None:
                return RedirectResponse(f"place/{place.key}/run/{run_id}", headers=_HEADERS)
        return self._page(request, "nothing", status=404, dag=dag, run=run)

    def objects(
        self, request: Request, key: str, run_id: str, wanted: Filter, start: str, sort: str
    ) -> Response:
        """Objects of a run."""
        found = find(self._places, key)
        objects = Objects(found, run_id)
        page = objects.largest(wanted) if sort == "size" else objects.page(wanted, start)
        rows = [
            {**row, "why": why(row), "size_text": size_text(row["size"])} for row in page.rows.to_pylist()
        ]
        asked = {name: value for name, value in asdict(wanted).items() if value not in ("", None)}
        onwards = urlencode({**asked, "start": page.next}) if page.next else ""
        return self._page(
            request,
            "objects",
            place=found,
            run_id=run_id,
            rows=rows,
            wanted=wanted,
            sort=sort,
            total=objects.num_rows,
            looked_at=page.looked_at,
            settled=objects.is_settled,
            onwards=onwards,
            query=urlencode(asked),
            reasons=REASONS,
            outcomes=outcomes_of(objects),
            can_ask=self._asker is not None and bool(found.store_uri),
        )

    def download(self, key: str, run_id: str, wanted: Filter, form: str) -> Response:
        """All objects of a run that are wanted, as a file."""
        objects = Objects(find(self._places, key), run_id)
        body, kind = downloads.body(objects.all(wanted), form)
        name = f'attachment; filename="{run_id}.{form}"'
        return StreamingResponse(body, media_type=kind, headers={**_HEADERS, "Content-Disposition": name})

    def why(self, request: Request, what: str, place: str) -> Response:
        """What keeps an object."""
        choices = [item for item in self._places.all() if item.kind == "lakefs" and item.store_uri]
        lines: list[str] = []
        problem = ""
        if what and self._asker is not None:
            chosen = find(self._places, place) if place else None
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
        """Say what happened."""
        status = (
            404 if isinstance(error, NotFoundError) else 503 if isinstance(error, UnavailableError) else 500
        )
        if error.exit_code == 2:
            status = 400
        return self._page(request, "error", status=status, message=str(error), kind=error.kind)

    def _airflow_run(self, plan: dict[str, Any]) -> str:
        """Where Airflow shows the run; "" when it is not of Airflow's."""
        dag, _, run = str(plan.get("lease", {}).get("holder", "")).partition(" ")
        return f"dags/{quote(dag, '')}/runs/{quote(run, '')}" if self._airflow and run else ""

    def _page(self, request: Request, name: str, status: int = 200, **values: Any) -> Response:
        depth = request.url.path.removeprefix(request.scope.get("root_path", "")).strip("/").count("/")
        body = render(
            _HERE / "templates" / f"{name}.html.j2",
            base="../" * depth or "./",
            kinds=KINDS,
            size_text=size_text,
            **values,
        )
        return HTMLResponse(body, status, headers=_HEADERS)


def make_router(pages: Pages) -> APIRouter:
    """Make the routes of the pages, to be included where somebody asks who may see them."""
    router = APIRouter(default_response_class=HTMLResponse)

    @router.get("/")
    def overview(request: Request) -> Response:
        return _drawn(pages, request, lambda: pages.overview(request))

    @router.get("/place/{key}")
    def place(request: Request, key: str) -> Response:
        return _drawn(pages, request, lambda: pages.place(request, key))

    @router.get("/place/{key}/run/{run_id}")
    def run(request: Request, key: str, run_id: str) -> Response:
        return _drawn(pages, request, lambda: pages.run(request, key, run_id))

    @router.get("/place/{key}/run/{run_id}/state")
    def state(request: Request, key: str, run_id: str) -> Response:
        return _drawn(pages, request, lambda: JSONResponse(pages.state(key, run_id), headers=_HEADERS))

    @router.get("/place/{key}/run/{run_id}/report")
    def report(request: Request, key: str, run_id: str) -> Response:
        return _drawn(pages, request, lambda: JSONResponse(pages.report(key, run_id), headers=_HEADERS))

    @router.get("/place/{key}/run/{run_id}/objects")
    def objects(
        request: Request, key: str, run_id: str, wanted: Wanted, start: PageOf = "", sort: PageOf = ""
    ) -> Response:
        return _drawn(pages, request, lambda: pages.objects(request, key, run_id, wanted, start, sort))

    @router.get("/place/{key}/run/{run_id}/objects.{form}")
    def download(request: Request, key: str, run_id: str, form: str, wanted: Wanted) -> Response:
        return _drawn(pages, request, lambda: pages.download(key, run_id, wanted, form))

    @router.get("/run")
    def run_of_dag(request: Request, dag: PageOf, run: PageOf) -> Response:
        return _drawn(pages, request, lambda: pages.run_of_dag(request, dag, run))

    @router.get("/why")
    def why_page(request: Request, what: PageOf = "", place: PageOf = "") -> Response:
        return _drawn(pages, request, lambda: pages.why(request, what, place))

    @router.get("/static/{name}")
    def static(request: Request, name: str) -> Response:
        return _drawn(pages, request, lambda: _static(name))

    return router


def make_app(pages: Pages, guards: Sequence[Callable[..., Any]] = ()) -> FastAPI:
    """Make the application.

    Args:
        pages: that it serves.
        guards: every page asks them, as FastAPI's dependencies, before it reads anything.
    """
    app = FastAPI(title="Dredge", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(make_router(pages), dependencies=[Depends(guard) for guard in guards])
    return app


def _drawn(pages: Pages, request: Request, draw: Callable[[], Response]) -> Response:
    try:
        return draw()
    except DredgeError as error:
        return pages.error(request, error)
    except Exception as error:
        log.exception("a page could not be drawn: %s", request.url.path)
        return pages.error(request, defect("a page", error))


def _static(name: str) -> Response:
    if name not in STATIC:
        raise NotFoundError("there is no such file")
    return FileResponse(
        _HERE / "static" / name, headers={**_HEADERS, "Cache-Control": "private, max-age=600"}
    )


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _overview_row(stand: Standing, recent: tuple[int, int]) -> dict[str, Any]:
    return {"stand": stand, "recent": recent, "always": stand.reclaimed(), "left": stand.not_deleted}


def _shares(report: dict[str, Any]) -> dict[str, Any]:
    """What the chart of a run shows: bytes by kind and verdict."""
    rows = [row for row in report["rows"] if row["size_bytes"] and not row["why"].startswith("of these")]
    return {
        "labels": [f"{row['kind']}: {row['verdict']}" for row in rows],
        "bytes": [row["size_bytes"] for row in rows],
        "verdicts": [row["verdict"] for row in rows],
    }
