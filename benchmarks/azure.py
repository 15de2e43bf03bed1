"""Listing and deleting on Azure, compared with the bare SDK on the same emulator.

    python -m benchmarks.azure [--objects N] [--repeat N]

Goal: at least 80 % of the bare SDK's rate. Both send batches of 256 deletions; the SDK's call sends them one
after another. `./run test stores` installs the emulator.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import click

from benchmarks.pairs import Pairs
from dredge.storage import open_deleter, open_reader
from dredge.storage.azure.clients import container_client
from tests.support.azure import TestContainer, azurite, make_container

_BATCH = 256


@click.command()
@click.option("--objects", default=5_000, show_default=True, help="Blobs listed and deleted.")
@click.option("--repeat", default=4, show_default=True, help="Pairs of rounds.")
def main(objects: int, repeat: int) -> None:
    """Measure listing and deleting."""
    with azurite() as options:
        container = make_container(options)
        names = [f"data/slice-{number % 50:04d}/object-{number:08d}" for number in range(objects)]

        def plant() -> None:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda name: container.client.upload_blob(name, b"x", overwrite=True), names))

        def listed() -> int:
            return sum(batch.num_rows for batch in open_reader(container.uri, options).list("data/"))

        def deleted() -> int:
            outcomes = open_deleter(container.uri, options).delete(names)
            return sum(item.outcome == "deleted" for item in outcomes)

        plant()
        with _counted(container) as sent:
            pairs = Pairs(objects, lambda: sent[0], repeat)
            pairs.compare("listing", listed, lambda: sum(1 for _ in container.client.list_blobs("data/")))
            pairs.compare("deleting", deleted, lambda: _bare_delete(container, names), plant)


def _bare_delete(container: TestContainer, names: list[str]) -> int:
    done = 0
    for start in range(0, len(names), _BATCH):
        answers = container.client.delete_blobs(*names[start : start + _BATCH])
        done += sum(answer.status_code == 202 for answer in answers)
    return done


@contextmanager
def _counted(container: TestContainer) -> Iterator[list[int]]:
    """Count the requests of both clients during the block."""
    sent = [0]
    own: list[Any] = [
        container_client(container.options, container.uri, retries) for retries in (True, False)
    ]
    pipelines = {id(client._pipeline): client._pipeline for client in (*own, container.client)}
    runs = {pipeline: pipeline.run for pipeline in pipelines.values()}

    def counting(run: Any) -> Any:
        def counted(request: object, **more: object) -> object:
            sent[0] += 1
            return run(request, **more)

        return counted

    for pipeline, run in runs.items():
        pipeline.run = counting(run)
    try:
        yield sent
    finally:
        for pipeline, run in runs.items():
            pipeline.run = run


if __name__ == "__main__":
    main()
