"""Listing and deleting on Azure beside the bare SDK, on one emulator, in one run.

    python -m benchmarks.azure [--objects N] [--repeat N]

The claim it guards: at least 80 % of what the bare SDK does on the same emulator, in the client's CPU seconds; the
emulator's own are the same for both. `./run test stores` installs the emulator.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import click

from dredge.storage import open_deleter, open_reader
from dredge.storage.azure.clients import container_client
from tests.support.azure import TestContainer, azurite, make_container


@click.command()
@click.option("--objects", default=20_000, show_default=True, help="Blobs listed and deleted.")
@click.option("--repeat", default=3, show_default=True, help="Rounds of the listing; the best one counts.")
def main(objects: int, repeat: int) -> None:
    """Measure listing and deleting."""
    with azurite() as options:
        container = make_container(options)
        names = [f"data/slice-{number % 50:04d}/object-{number:08d}" for number in range(objects)]
        _plant(container, names)
        reader = open_reader(container.uri, options)
        _say(
            "listing",
            objects,
            _best(repeat, lambda: sum(batch.num_rows for batch in reader.list("data/"))),
            _best(repeat, lambda: sum(1 for _ in container.client.list_blobs("data/"))),
            _requests(container, lambda: list(reader.list("data/"))),
        )
        other = make_container(options)
        _plant(other, names)
        deleter, own = open_deleter(container.uri, options), list[tuple[float, float]]()
        count = _requests(
            container, lambda: own.append(_best(1, lambda: len(deleter.delete(names)))), retries=False
        )
        bare = _best(1, lambda: _bare_delete(other, names))
        _say("deleting", objects, own[0], bare, count)
        assert container.names() == []


def _plant(container: TestContainer, names: list[str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: container.client.upload_blob(name, b"x"), names))


def _bare_delete(container: TestContainer, names: list[str]) -> int:
    done = 0
    for start in range(0, len(names), 256):
        done += sum(1 for _ in container.client.delete_blobs(*names[start : start + 256]))
    return done


def _best(repeat: int, act: Callable[[], int]) -> tuple[float, float]:
    """Wall and CPU seconds of the best round."""
    rounds = []
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        act()
        rounds.append((time.process_time() - cpu, time.perf_counter() - wall))
    cpu, wall = min(rounds)
    return wall, cpu


def _requests(container: TestContainer, act: Callable[[], object], retries: bool = True) -> int:
    """How many requests our client sends meanwhile."""
    sent = [0]
    pipeline = container_client(container.options, container.uri, retries)._pipeline
    run = pipeline.run

    def counting(request: object, **more: object) -> object:
        sent[0] += 1
        return run(request, **more)

    pipeline.run = counting
    try:
        act()
    finally:
        pipeline.run = run
    return sent[0]


def _say(what: str, objects: int, own: tuple[float, float], bare: tuple[float, float], requests: int) -> None:
    click.echo(
        f"{what}: dredge {objects / own[0]:,.0f}/s, {own[1] / objects * 1e6:.1f} µs CPU each; bare SDK"
        f" {objects / bare[0]:,.0f}/s, {bare[1] / objects * 1e6:.1f} µs CPU each; speed {bare[0] / own[0]:.0%};"
        f" {requests * 1000 / objects:.2f} requests a thousand"
    )


if __name__ == "__main__":
    main()
