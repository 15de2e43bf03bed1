"""Every page in every state, without an Airflow: collections in memory, served by this process.

python -m tests.pages.gallery       serves them, for a look by hand; Ctrl-C ends it
"""

import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn

from dredge.errors import DredgeError, UnavailableError
from dredge.gc.approve import approve
from dredge.gc.steps import slice_listing
from dredge.icechunk.expiration.plan import plan_expiration
from dredge.icechunk.expiration.restore import store_plan
from dredge.icechunk.format.metadata import SnapshotEntry, micros
from dredge.icechunk.history import History
from dredge.pages.drawing import Pages
from dredge.pages.places import (
    Facts,
    FolderPlaces,
    Place,
    Schedule,
    ServerAsker,
    Waiting,
    of_repository,
)
from dredge.pages.web import CHANGING, make_app
from dredge.runs.run import release_lease
from dredge.storage import open_writer
from dredge.trash.state import TrashState
from tests.support.gc import World, make_world
from tests.support.pages import HOSTILE, SCRIPT, Around, Fixed
from tests.support.trash import Ground


@dataclass(frozen=True)
class Gallery:
    """Pages that are served: the address of the overview, and those of pages in each state."""

    url: str
    pages: dict[str, str]


@contextmanager
def gallery() -> Iterator[Gallery]:
    """Serve the pages until the end of the block."""
    with TemporaryDirectory(prefix="dredge-gallery-") as folder:
        world = _world()
        lake = of_repository(world.lake.repository, world.lake.namespace)
        pages = {"overview": "", **_runs(world, lake)}
        icechunk, plan = _icechunk(Path(folder) / "icechunk")
        pages |= {
            "icechunk": f"place/{icechunk.key}",
            "icechunk-plan": f"place/{icechunk.key}/expiration/{plan}",
        }
        trash, cleaned = _trash(Path(folder) / "trash")
        pages |= {"trash": f"place/{trash.key}", "trash-run": f"place/{trash.key}/run/{cleaned}"}
        pages |= {"nothing": "run?dag=lakefs_gc&run=manual__2026", "no-such-page": f"place/{'0' * 16}"}
        places = Fixed([lake, icechunk, trash], ["The lakeFS server of connection other cannot be reached."])
        asker = ServerAsker(lambda _place: world.client, world.lake.clock)
        drawn = Pages(places, asker, clock=world.lake.clock)
        app = make_app(drawn, (), _around(world, lake), dict.fromkeys(CHANGING, ()))
        with _served(app) as url:
            yield Gallery(url, pages)


def _world() -> World:
    world = make_world(tuning={"candidate_rows": 40, "delete_keys": 1000})
    world.rules(30)
    for number in range(6):
        world.upload(f"tables/orders/part-{number}", b"%d" % number * 3_000 * (number + 1))
        world.lake.commit()
    for number in range(130):
        world.orphan(
            f"data/{'abc'[number % 3]}0f3k9qslice/{number:04d}c2v8t0upload", b"g" * (number * 977 + 1)
        )
    world.orphan(HOSTILE)
    world.upload("staged", b"staged")
    world.age(days=2)
    return world


def _runs(world: World, place: Place) -> dict[str, str]:
    home = f"place/{place.key}"
    found = {"repository-empty": home}
    dry = world.plan(dry_run=True)
    world.run(dry)
    world.age(hours=5)
    done = world.plan()
    world.run(done)
    world.age(days=1)
    _more_garbage(world, 3)
    waiting = world.plan(approval="always")
    world.mark(waiting)
    with suppress(DredgeError):
        approve(waiting)
    world.age(days=1)
    failed = world.plan()
    world.client.before = _is_down
    with suppress(DredgeError):
        world.run(failed)
    world.client.before = lambda _name, _arguments: None
    world.age(hours=2)
    damaged = world.plan()
    damaged.folder.writer.put("plan.json", b"{")
    release_lease(damaged)
    at_work = world.plan()
    slice_listing(at_work, world.runner)
    at_work.folder.write_json(
        "mark_uncommitted/_progress/now.json",
        {
            "text": "mark_uncommitted: 5 of 9 pages",
            "done": 5,
            "total": 9,
            "at": world.lake.clock().isoformat(),
        },
    )
    runs = {
        "dry": dry,
        "done": done,
        "waits": waiting,
        "failed": failed,
        "damaged": damaged,
        "at-work": at_work,
    }
    found |= {f"run-{name}": f"{home}/run/{run.plan.run_id}" for name, run in runs.items()}
    return found | {
        "repository": home,
        "gaps": f"{home}/gaps",
        "objects": f"{found['run-done']}/objects",
        "objects-dry": f"{found['run-dry']}/objects?sort=size",
        "objects-none": f"{found['run-done']}/objects?prefix=nothing",
        "restore": f"{found['run-done']}/restore",
        "restore-chosen": f"{found['run-done']}/restore?prefix=data/a",
        "why": "why",
        "why-kept": f"why?what={sorted(world.served().values())[0]}&place={place.key}",
        "why-deleted": f"why?what=data/a0f3k9qslice/0000c2v8t0upload&place={place.key}",
        "why-unclear": f"why?what={SCRIPT}",
    }


def _more_garbage(world: World, objects: int) -> None:
    for number in range(objects):
        world.orphan(f"data/later/{number}", b"later")
    world.age(days=2)


def _is_down(name: str, _arguments: tuple[Any, ...]) -> None:
    if name == "prepare_commits":
        raise UnavailableError("lakeFS answered 503 'slow down'")


def _icechunk(folder: Path) -> tuple[Place, str]:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    ids = [f"{number:020d}" for number in range(7)]
    entries = [
        SnapshotEntry(ids[n], ids[n - 1] if n else None, micros(now - timedelta(days=50 - n)), f"write {n}")
        for n in range(7)
    ]
    history = History(2, {entry.id: entry for entry in entries}, {"main": ids[6]}, {"v1": ids[2]})
    plan = plan_expiration(history, now - timedelta(days=45, hours=1))
    uri = store_plan(f"file://{folder}", plan, now)
    return FolderPlaces(f"file://{folder}").all()[0], uri.rpartition("/")[2]


def _trash(folder: Path) -> tuple[Place, str]:
    ground = Ground(TrashState(open_writer(f"file://{folder}/state")))
    ground.world.stage(f"{SCRIPT}-token")
    ground.scan()
    report = ground.clean(after=timedelta(days=2))
    return FolderPlaces(f"file://{folder}").all()[0], report.scan.plan.run_id


def _around(world: World, place: Place) -> Around:
    now = world.lake.clock()
    settings = {"repository": world.lake.repository}
    daily = Schedule("demo_daily", settings, "every day at 03:00", now + timedelta(hours=9), True)
    asks = Waiting(
        f"Delete 3 objects of {place.name}?", "lakefs_gc", "manual__1", now, "dags/lakefs_gc/runs/manual__1"
    )
    known = Facts(
        is_airflow=True, schedules=(daily,), waiting=(asks,), may_start=frozenset(CHANGING), form_token="own"
    )
    return Around(known, [now - timedelta(days=number) for number in range(3)])


@contextmanager
def _served(app: Any) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join(30)


def main() -> None:
    warnings.simplefilter("ignore")
    with gallery() as found:
        for name, address in found.pages.items():
            print(f"{name:18} {found.url}{address}", flush=True)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main()
