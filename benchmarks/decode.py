"""Decoding of ranges: rows a second and core, for each set of columns.

    python -m benchmarks.decode [--rows N] [--repeat N]

Dredge's own writer makes two ranges of a server's maximum size: `plain` (short relative addresses of uploads)
and `mixed` (signed and full addresses, metadata, incompressible content). The figure is the CPU time of the
best run, with the file in memory. `again` then decodes a second version of the plain range with a change in
one block of a hundred. A separate process measures the peak memory.
"""

import argparse
import hashlib
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from dredge.lakefs.files.addresses import AddressType
from dredge.lakefs.files.sstable import read_table
from dredge.lakefs.files.sstable.columns import decode_ranges, read_addresses
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.tables import TableWriter, WrittenTable, put_value

RANGE_SIZE = 20 << 20
START = datetime(2026, 1, 1, tzinfo=UTC)
SETS: dict[str, tuple[str, ...]] = {
    "address, type": ("address", "address_type"),
    "+ size, etag": ("address", "address_type", "size", "etag"),
    "+ key": ("address", "address_type", "size", "etag", "key"),
    "hashes only": ("address_hash", "content_hash", "size"),
}


def plain_entries(seed: int) -> Iterator[tuple[bytes, Entry]]:
    """Yield uploads of one table, with 20 random hexadecimal digits in each name."""
    chance = random.Random(seed)
    number = 0
    while True:
        slice_id = f"{number // 5000:020d}"
        name = chance.randbytes(10).hex()
        key = f"warehouse/table={number // 20000:03d}/day={number // 500:05d}/part-{number:07d}.parquet"
        etag = hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()
        yield (
            key.encode(),
            Entry(
                f"data/{slice_id}/{name}",
                size=chance.randrange(1 << 30),
                etag=etag,
                last_modified=START + timedelta(seconds=number),
                content_type="application/octet-stream",
            ),
        )
        number += 1


def mixed_entries(seed: int) -> Iterator[tuple[bytes, Entry]]:
    """Yield the same with signed and full addresses, metadata, and noise."""
    chance = random.Random(seed)
    for key, entry in plain_entries(seed):
        kind = chance.randrange(10)
        address, address_type = entry.address, AddressType.RELATIVE
        if kind < 3:
            address += "," + chance.randbytes(32).hex()[:43]
        elif kind < 5:
            address, address_type = f"s3://other-bucket/import/{entry.address}", AddressType.FULL
        metadata = {f"k{i}": chance.randbytes(12).hex() for i in range(chance.randrange(4))}
        yield (
            key,
            Entry(address, address_type, entry.size, entry.etag, entry.last_modified, metadata, "text/csv"),
        )


def make_range(entries: Iterator[tuple[bytes, Entry]], rows: int | None, changed: int = 0) -> WrittenTable:
    """Write one range.

    Args:
        entries: infinite.
        rows: number of rows; None for a server's maximum.
        changed: change the size of one entry in so many; 0 for none.
    """
    writer = TableWriter()
    for number, (key, entry) in enumerate(entries):
        if changed and number % changed == 0:
            entry = Entry(
                entry.address, size=entry.size ^ 1, etag=entry.etag, last_modified=entry.last_modified
            )
        writer.add(key, put_value(entry.value()))
        if writer.count == rows or (rows is None and writer.estimated_size() >= RANGE_SIZE):
            break
    return writer.finish()


def best_cpu_seconds(work: Callable[[], object], repeat: int) -> float:
    """Return the CPU time of the fastest of several runs."""
    best = float("inf")
    for _ in range(repeat):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best


def main() -> None:
    """Make the ranges, decode them, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, help="rows of each range (default: as many as fit 20 MiB)")
    parser.add_argument("--repeat", type=int, default=10, help="runs of which the best counts")
    parser.add_argument("--peak", metavar="FILE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    if arguments.peak:
        with open(arguments.peak, "rb") as file:
            read_addresses(file.read(), "range", SETS["+ key"])
        # Not getrusage: a child inherits the figure of its parent.
        with open("/proc/self/status") as status:
            print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
        return
    tables = {
        "plain": make_range(plain_entries(1), arguments.rows),
        "mixed": make_range(mixed_entries(1), arguments.rows),
    }
    print(f"{'range':8} {'rows':>8} {'MiB':>6}  {'columns':16} {'ms':>7} {'million rows/s':>15}")

    def show(name: str, table: WrittenTable, what: str, work: Callable[[], object]) -> None:
        seconds = best_cpu_seconds(work, arguments.repeat)
        size = len(table.data) / (1 << 20)
        rate = table.count / seconds / 1e6
        print(
            f"{name:8} {table.count:8} {size:6.1f}  {what:16} {seconds * 1e3:7.1f} {rate:15.2f}", flush=True
        )

    for name, table in tables.items():
        for what, columns in SETS.items():
            show(name, table, what, lambda t=table, c=columns: read_addresses(t.data, "range", c))  # type: ignore[misc]
    first, second = tables["plain"], make_range(plain_entries(1), tables["plain"].count, changed=2200)
    for what, columns in SETS.items():
        alone = best_cpu_seconds(lambda c=columns: read_addresses(first.data, "a", c), arguments.repeat)  # type: ignore[misc]

        def both(columns: tuple[str, ...] = columns) -> None:
            for _ in decode_ranges([("a", first.data), ("b", second.data)], columns):
                pass

        seconds = best_cpu_seconds(both, arguments.repeat) - alone
        rate = second.count / seconds / 1e6
        size = len(second.data) / (1 << 20)
        print(
            f"{'again':8} {second.count:8} {size:6.1f}  {what:16} {seconds * 1e3:7.1f} {rate:15.2f}",
            flush=True,
        )
    show("plain", first, "strict reader", lambda: read_table(first.data, "range"))
    print(f"peak memory of a fresh process, all columns: {peak_mib(first)} MiB")


def peak_mib(table: WrittenTable) -> int:
    """Return the peak memory of a process that decodes this range."""
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(table.data)
        file.flush()
        command = [sys.executable, "-m", "benchmarks.decode", "--peak", file.name]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
