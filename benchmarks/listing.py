"""Listing compared with the bare native client, on a local folder and on S3.

    python -m benchmarks.listing [--objects N] [--slices N] [--repeat N]

Goal: at least 80 % of the bare client's rate on the same store.
"""

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from benchmarks.s3_store import put, s3_store
from dredge.storage import StorageOptions, open_reader

STATE = Path(__file__).resolve().parent.parent / ".dredge" / "bench" / "listing"
BUCKET = "benchmark"


@click.command()
@click.option("--objects", default=100_000, show_default=True, help="Objects listed.")
@click.option("--slices", default=50, show_default=True, help="Number of their folders.")
@click.option("--repeat", default=5, show_default=True, help="Rounds; the best one counts.")
def main(objects: int, slices: int, repeat: int) -> None:
    """Measure listing."""
    import obstore

    keys = [f"data/slice-{number % slices:04d}/object-{number:08d}" for number in range(objects)]
    shutil.rmtree(STATE, ignore_errors=True)
    _plant(STATE, keys, slices)
    bare = obstore.store.LocalStore(str(STATE))
    ours = open_reader(f"file://{STATE}")
    _compare("folder", repeat, lambda: _rows(ours.list("data/")), lambda: _bare(bare))
    with s3_store() as server:
        _plant(server.bucket(BUCKET), keys, slices)
        options = StorageOptions.from_env(server.environ)
        remote = obstore.store.S3Store(
            BUCKET,
            endpoint=options.endpoint_url,
            region="us-east-1",
            access_key_id=options.access_key_id,
            secret_access_key=options.secret_access_key,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )
        reader = open_reader(f"s3://{BUCKET}", options)
        _compare("S3", repeat, lambda: _rows(reader.list("data/")), lambda: _bare(remote))


def _plant(root: Path, keys: Sequence[str], slices: int) -> None:
    for number in range(slices):
        (root / "data" / f"slice-{number:04d}").mkdir(parents=True, exist_ok=True)
    for key in keys:
        put(root / key, b"x")


def _rows(batches: object) -> int:
    return sum(batch.num_rows for batch in batches)  # type: ignore[attr-defined]


def _bare(store: object) -> int:
    import obstore

    return sum(
        batch.num_rows for batch in obstore.list(store, prefix="data", chunk_size=5000, return_arrow=True)
    )


def _compare(name: str, repeat: int, ours: Callable[[], int], bare: Callable[[], int]) -> None:
    best = {}
    for label, listing in (("dredge", ours), ("bare obstore", bare)) * repeat:
        begun = time.perf_counter()
        rows = listing()
        best[label] = max(best.get(label, 0.0), rows / (time.perf_counter() - begun))
    share = best["dredge"] / best["bare obstore"]
    rates = ", ".join(f"{label} {rate:,.0f} keys/s" for label, rate in best.items())
    click.echo(f"{name}: {rates}: {share:.0%} of the bare client")


if __name__ == "__main__":
    main()
