"""The verification: read everything before and after a run, and compare the store with the expected outcomes."""

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import lakefs

from demo.lake import Lake, Planted

Reads = dict[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the final table."""

    kind: str
    why: str
    live: bool
    objects: int
    size_bytes: int
    present: int

    @property
    def right(self) -> bool:
        """Whether the outcome of these objects is the expected one."""
        return self.present == (self.objects if self.live else 0)


def list_refs(lake: Lake) -> Iterator[str]:
    """Yield every branch, hidden ones too, and every tag of the lake's repository."""
    branches = lake.sdk.branches_api.list_branches(lake.repository, show_hidden=True, amount=1000)
    yield from (branch.id for branch in branches.results)
    yield from (tag.id for tag in lake.sdk.tags_api.list_tags(lake.repository, amount=1000).results)


def read_everything(lake: Lake) -> Reads:
    """Read every object of every branch and tag through the SDK.

    Returns:
        SHA-256 of the bytes by (ref, path); the error's name for an unreadable object.
    """
    targets = []
    for ref in list_refs(lake):
        objects = lakefs.Repository(lake.repository, lake.client).ref(ref).objects(max_amount=None)
        targets += [(ref, found.path) for found in objects]
    with ThreadPoolExecutor(max_workers=8) as pool:
        return dict(zip(targets, pool.map(lambda target: _read(lake, *target), targets), strict=True))


def _read(lake: Lake, ref: str, path: str) -> str:
    try:
        content = lake.sdk.objects_api.get_object(lake.repository, ref, path)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return hashlib.sha256(bytes(content)).hexdigest()


def list_keys(lake: Lake) -> set[str]:
    """Return the keys below data/ in the object store."""
    return {key for batch in lake.store.list("data/") for key in batch.column("key").to_pylist()}


def tabulate(planted: dict[str, Planted], present: set[str]) -> list[Row]:
    """Group objects by kind: first garbage, then live objects."""
    groups: dict[tuple[bool, str, str], list[Planted]] = {}
    for thing in planted.values():
        groups.setdefault((thing.live, thing.kind, thing.why), []).append(thing)
    return [
        Row(
            kind=kind,
            why=why,
            live=live,
            objects=len(things),
            size_bytes=sum(thing.size for thing in things),
            present=sum(thing.address in present for thing in things),
        )
        for (live, kind, why), things in sorted(groups.items(), key=lambda group: group[0][:2])
    ]


def render(rows: list[Row], dry_run: bool) -> str:
    """Draw the table of a finished run for a terminal."""
    lines = [f"{'kind':<26} {'objects':>7} {'bytes':>9}  {'verdict':<9} why", "-" * 110]
    for row in rows:
        verdict = "kept" if row.present == row.objects else "deleted" if row.present == 0 else "MIXED"
        mark = "" if dry_run or row.right else "   <-- WRONG"
        lines.append(f"{row.kind:<26} {row.objects:>7} {row.size_bytes:>9}  {verdict:<9} {row.why}{mark}")
    return "\n".join(lines)


def unreadable(before: Reads, after: Reads) -> list[str]:
    """Return the objects with different content after the run."""
    return [
        f"{ref}:{path} was {digest[:12]}, is {after.get((ref, path), 'not listed any more')[:60]}"
        for (ref, path), digest in before.items()
        if after.get((ref, path)) != digest
    ]
