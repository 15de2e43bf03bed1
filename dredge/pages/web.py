"""The pages' addresses: `make_router` returns them, `make_app` serves them alone.

    /                                           overview
    /place/{key}                                a repository; …/gaps: windows of its schedules without a run
    /place/{key}/run/{run_id}                   a run; …/state for polling, …/report as JSON
    /place/{key}/run/{run_id}/objects           its objects; …/objects.csv, …/objects.parquet
    /place/{key}/run/{run_id}/restore           the preview of a restore
    /place/{key}/expiration/{plan_id}           an expiration of Icechunk
    /run?dag=…&run=…                            redirects from a DAG run to its page
    /why                                        the reasons for keeping an object

Every route is a GET and only reads, with three exceptions: a POST to a run's …/restore, …/restore-icechunk or
…/restore-rows starts a run of the restoring DAG. These exist only with a check of permissions. Links are relative, so
that the pages work below any path.

Another site can make its own name resolve to 127.0.0.1 (DNS rebinding). The browser then treats the answers of `dredge
ui` as that site's, and lets its scripts read them. The `Host` of such a request is the site's name, so only accepted
names are answered.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import socket
import threading
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, FastAPI, Form, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from fastapi.routing import APIRoute

from dredge.errors import DredgeError, NotFoundError
from dredge.pages.drawing import HEADERS, Pages
from dredge.pages.object_rows import Filter
from dredge.pages.places import KV, Alone, Facts, NotAllowedError, Surroundings
from dredge.pages.restoring import ROWS_DAG, UNDOING
from dredge.pages.trash import WantedFindings
from dredge.runs.failures import defect

LOOPBACK = ("localhost", "127.0.0.1", "::1")
MISDIRECTED = 421

type _Scope = MutableMapping[str, Any]
type _Receive = Callable[[], Awaitable[Any]]
type _Send = Callable[[Any], Awaitable[None]]
type _App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


def find_names(host: str, more: Iterable[str] = ()) -> frozenset[str]:
    """Return the accepted names of a server: loopback, its listening address, and further names. `host`: listening
    address or name. An address for all interfaces adds the names of the machine."""
    machine = (socket.gethostname(), socket.getfqdn()) if listens_everywhere(host) else ()
    return frozenset(map(_plain, (*LOOPBACK, host, *machine, *more)))


def listens_everywhere(host: str) -> bool:
    """Return whether a listening host means every address of the machine."""
    return _plain(host) in ("", "0.0.0.0", "::")


class OwnNames:
    """Answers only requests with one of the server's names as `Host`, on any port. `addresses`: accept every IP address
    as well: another site cannot make a name of it."""

    def __init__(self, app: _App, names: Collection[str], addresses: bool = False) -> None:
        self._app = app
        self._names = names
        self._addresses = addresses

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer a request, or refuse it with 421."""
        if scope["type"] not in ("http", "websocket") or self._is_own(scope):
            await self._app(scope, receive, send)
            return
        text = "This host name is not accepted. Add it with --name, or open the address that `dredge ui` printed."
        await PlainTextResponse(text, MISDIRECTED)(scope, receive, send)

    def _is_own(self, scope: _Scope) -> bool:
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(given) != 1:
            return False
        host = _plain(_without_port(given[0]))
        return host in self._names or (self._addresses and _is_address(host))


def _without_port(text: str) -> str:
    """Return the host of a `Host` header; an address in brackets is IPv6."""
    return text[: text.index("]") + 1] if text.startswith("[") and "]" in text else text.partition(":")[0]


def _plain(host: str) -> str:
    return host.strip().strip("[]").rstrip(".").lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


log = logging.getLogger("dredge")

STATIC = frozenset({"chart.umd.min.js", "icon.svg", "pages.css", "pages.js", "theme.js"})
_HERE = Path(__file__).parent

# Not by `type`: FastAPI before 0.118, as Airflow 3.0 and 3.1 have it, does not look into such a name.
Asked = Annotated[str, Query(max_length=4000)]
Filled = Annotated[str, Form(max_length=4000)]
type Guards = Sequence[Callable[..., Any]]


def _wanted(
    prefix: Asked = "",
    reason: Asked = "",
    outcome: Asked = "",
    branch: Asked = "",
    size_min: Asked = "",
    size_max: Asked = "",
) -> Filter:
    """The selection of objects of an address; a form also sends empty fields."""
    return Filter(prefix, reason, outcome, branch, _number(size_min), _number(size_max))


def _findings(prefix: Asked = "", kind: Asked = "", verdict: Asked = "") -> WantedFindings:
    return WantedFindings(prefix, kind, verdict)


def _chosen(
    prefix: Asked = "",
    address: Asked = "",
    reason: Asked = "",
    everything: Annotated[str, Query(alias="all", max_length=10)] = "",
    keep_days: Asked = "",
    because: Asked = "",
) -> dict[str, str]:
    return _restore_fields(prefix, address, reason, everything, keep_days, because)


def _filled(
    prefix: Filled = "",
    address: Filled = "",
    reason: Filled = "",
    everything: Annotated[str, Form(alias="all", max_length=10)] = "",
    keep_days: Filled = "",
    because: Filled = "",
) -> dict[str, str]:
    return _restore_fields(prefix, address, reason, everything, keep_days, because)


def _restore_fields(*values: str) -> dict[str, str]:
    names = ("prefix", "address", "reason", "all", "keep_days", "because")
    return {name: value for name, value in zip(names, values, strict=True) if value}


async def _known(request: Request) -> Facts:
    around: Surroundings = request.app.state.surroundings
    return await around.facts(request)


Wanted = Annotated[Filter, Depends(_wanted)]
Findings = Annotated[WantedFindings, Depends(_findings)]
Chosen = Annotated[dict[str, str], Depends(_chosen)]
FilledIn = Annotated[dict[str, str], Depends(_filled)]
Known = Annotated[Facts, Depends(_known)]


class _Route(APIRoute):
    """A route whose errors become pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def drawn(request: Request) -> Response:
            pages: Pages = request.app.state.pages
            try:
                return await handle(request)
            except (HTTPException, RequestValidationError):
                raise  # of FastAPI: no permission, or a field that is too long
            except DredgeError as error:
                return await run_in_threadpool(pages.error, request, error)
            except Exception as error:
                log.exception("a page could not be made: %s", request.url.path)
                return await run_in_threadpool(pages.error, request, defect("a page", error))

        return drawn


def make_router(pages: Pages) -> APIRouter:
    """Make the routes of the pages, to be included with a check of permissions."""
    router = APIRouter(default_response_class=HTMLResponse, route_class=_Route)

    @router.get("/")
    def overview(request: Request, known: Known) -> Response:
        return pages.overview(request, known)

    @router.get("/place/{key}")
    def place(request: Request, key: str, known: Known) -> Response:
        return pages.place(request, key, known)

    @router.get("/place/{key}/gaps")
    async def gaps(request: Request, key: str, known: Known) -> Response:
        found = await run_in_threadpool(pages.place_of, key)
        around: Surroundings = request.app.state.surroundings
        asked = [item for item in known.schedules_of(found) if item.may_backfill]
        return pages.gaps(request, found, [await around.gaps(request, item) for item in asked])

    @router.get("/place/{key}/run/{run_id}")
    def run(
        request: Request,
        key: str,
        run_id: str,
        known: Known,
        wanted: Findings,
        start: Asked = "",
        started: Asked = "",
    ) -> Response:
        if pages.place_of(key).kind == KV:
            return pages.trash(request, key, run_id, wanted, start, known, started)
        return pages.run(request, key, run_id, known)

    @router.get("/place/{key}/run/{run_id}/state")
    def state(key: str, run_id: str) -> Response:
        return JSONResponse(pages.state(key, run_id), headers=HEADERS)

    @router.get("/place/{key}/run/{run_id}/report")
    def report(key: str, run_id: str) -> Response:
        return JSONResponse(pages.report(key, run_id), headers=HEADERS)

    @router.get("/place/{key}/run/{run_id}/objects")
    def objects(
        request: Request, key: str, run_id: str, wanted: Wanted, start: Asked = "", sort: Asked = ""
    ) -> Response:
        return pages.objects(request, key, run_id, wanted, start, sort)

    @router.get("/place/{key}/run/{run_id}/objects.{form}")
    def download(key: str, run_id: str, form: str, wanted: Wanted) -> Response:
        return pages.download(key, run_id, wanted, form)

    @router.get("/place/{key}/run/{run_id}/restore")
    def restore(
        request: Request, key: str, run_id: str, known: Known, asked: Chosen, started: Asked = ""
    ) -> Response:
        return pages.restore(request, key, run_id, known, asked, started)

    @router.get("/place/{key}/expiration/{plan_id}")
    def expiration(request: Request, key: str, plan_id: str) -> Response:
        return pages.expiration(request, key, plan_id)

    @router.get("/run")
    def run_of_dag(request: Request, dag: Asked, run: Asked) -> Response:
        return pages.run_of_dag(request, dag, run)

    @router.get("/why")
    def why_page(request: Request, what: Asked = "", place: Asked = "") -> Response:
        return pages.why(request, what, place)

    @router.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in STATIC:
            raise NotFoundError("there is no such file")
        kept = {**HEADERS, "Cache-Control": "private, max-age=600"}
        return FileResponse(_HERE / "static" / name, headers=kept)

    return router


def _restore_router(kind: str, pages: Pages) -> APIRouter:
    router = APIRouter(default_response_class=HTMLResponse, route_class=_Route)
    undoing = UNDOING[kind]

    @router.post(f"/place/{{key}}/run/{{run_id}}/{undoing.form}")
    async def restore(
        request: Request, key: str, run_id: str, known: Known, asked: FilledIn, form_token: Filled = ""
    ) -> Response:
        _check_form(known, undoing.dag, form_token)
        settings = await run_in_threadpool(pages.restore_settings, key, run_id, kind, asked)
        return await _start(request, undoing.dag, settings, "restore")

    return router


def _row_restore_router(pages: Pages) -> APIRouter:
    router = APIRouter(default_response_class=HTMLResponse, route_class=_Route)

    @router.post("/place/{key}/run/{run_id}/restore-rows")
    async def restore_rows(
        request: Request, key: str, run_id: str, known: Known, partition: Filled = "", form_token: Filled = ""
    ) -> Response:
        _check_form(known, ROWS_DAG, form_token)
        settings = await run_in_threadpool(pages.row_restore_settings, key, run_id, partition, known)
        return await _start(request, ROWS_DAG, settings, f"../{run_id}")

    return router


# The changing routes, by the started DAG.
CHANGING: Mapping[str, Callable[[Pages], APIRouter]] = {
    **{undoing.dag: partial(_restore_router, kind) for kind, undoing in UNDOING.items()},
    ROWS_DAG: _row_restore_router,
}


async def _start(request: Request, dag_id: str, settings: Mapping[str, Any], back_to: str) -> Response:
    around: Surroundings = request.app.state.surroundings
    started = await around.start(request, dag_id, settings)
    return RedirectResponse(f"{back_to}?{urlencode({'started': started})}", 303, headers=HEADERS)


def _check_form(known: Facts, dag_id: str, token: str) -> None:
    """Check the token of a form: another site cannot read the user's pages, and so has no token."""
    # Compared as bytes: text beyond ASCII would raise another error.
    is_own = hmac.compare_digest(token.encode(), known.form_token.encode())
    if not (dag_id in known.may_start and known.form_token and is_own):
        raise NotAllowedError(
            "no permission, or the form is outdated. Nothing was changed. Reload the page and try again."
        )


def make_app(
    pages: Pages,
    guards: Guards = (),
    surroundings: Surroundings | None = None,
    changers: Mapping[str, Guards] | None = None,
) -> FastAPI:
    """Make the application. `guards`: FastAPI dependencies of every page, called before it reads. `changers`:
    additional dependencies of changing routes, by DAG of `CHANGING`; other DAGs cannot be started."""
    app = FastAPI(title="Dredge", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.surroundings, app.state.pages = surroundings or Alone(), pages
    asked = [Depends(guard) for guard in guards]
    app.include_router(make_router(pages), dependencies=asked)
    for dag_id, more in (changers or {}).items():
        app.include_router(
            CHANGING[dag_id](pages), dependencies=[*asked, *(Depends(guard) for guard in more)]
        )
    return app


def warm_up() -> None:
    """Load the libraries for the first page with rows in the background."""
    threading.Thread(target=_load, daemon=True).start()


def _load() -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet

    pa.array(np.arange(1))  # imports pandas, the slowest part


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
