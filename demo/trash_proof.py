"""Verification of the trash demo: live repositories work as before, and only trash was removed."""

import hashlib
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import lakefs
from lakefs.client import Client

from demo.trash_kinds import Planted
from dredge.kv.rows import Row
from dredge.trash.findings import TrashFinding

type Reads = dict[tuple[str, str, str], str]
"""SHA-256 of an object's content, by repository, ref and path."""


def read_everything(client: Client, names: Iterable[str]) -> Reads:
    """Read every object of every branch and tag through the SDK; an error reads as its name."""
    targets = []
    for name in names:
        repository = lakefs.Repository(name, client)
        refs = [*repository.branches(max_amount=None), *repository.tags(max_amount=None)]
        for ref in refs:
            targets += [
                (name, ref.id, found.path) for found in repository.ref(ref.id).objects(max_amount=None)
            ]
    with ThreadPoolExecutor(max_workers=4) as pool:
        return dict(zip(targets, pool.map(lambda target: _read(client, *target), targets), strict=True))


def _read(client: Client, name: str, ref: str, path: str) -> str:
    try:
        content = client.sdk_client.objects_api.get_object(name, ref, path)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return hashlib.sha256(bytes(content)).hexdigest()


def work_through(client: Client, names: Iterable[str]) -> list[str]:
    """Use every repository: upload, commit on each branch, merge all into main.

    Returns:
        The failures.
    """
    problems = []
    for name in names:
        repository = lakefs.Repository(name, client)
        branches = [branch.id for branch in repository.branches(max_amount=None)]
        # main last: its own changes are committed before the others are merged into it.
        for branch in [*(each for each in branches if each != "main"), "main"]:
            try:
                put(client, name, branch, f"after/{branch}", f"{name} {branch}".encode())
                repository.branch(branch).commit(message=f"after the clean, on {branch}")
            except Exception as error:
                problems.append(f"{name}/{branch}: no commit: {error}")
        for branch in branches:
            try:
                if branch != "main":
                    repository.branch(branch).merge_into("main")
            except Exception as error:
                problems.append(f"{name}/{branch}: no merge into main: {error}")
        paths = {found.path for found in repository.ref("main").objects(max_amount=None)}
        problems += [
            f"{name}: main lacks what {each} had" for each in branches if f"after/{each}" not in paths
        ]
    return problems


def put(client: Client, name: str, branch: str, path: str, content: bytes) -> None:
    """Upload one object."""
    target = lakefs.Repository(name, client).branch(branch).object(path)
    target.upload(content, mode="wb", pre_sign=False)


class Users(threading.Thread):
    """A thread that uploads and reads during the clean.

    Args:
        client: of the server.
        targets: repository and branch, in turn.
    """

    def __init__(self, client: Client, targets: Sequence[tuple[str, str]]) -> None:
        super().__init__(name="users", daemon=True)
        self._client = client
        self._targets = targets
        self._end = threading.Event()
        self.written: Reads = {}
        self.problems: list[str] = []

    def run(self) -> None:
        """Upload, and read back, until stopped."""
        number = 0
        while not self._end.is_set():
            name, branch = self._targets[number % len(self._targets)]
            path, content = f"during/{number:05d}", f"{name} {branch} {number}".encode()
            try:
                put(self._client, name, branch, path, content)
            except Exception as error:
                self.problems.append(f"{name}/{branch}/{path} was not accepted: {error}")
            else:
                self.written[name, branch, path] = hashlib.sha256(content).hexdigest()
            number += 1
            time.sleep(0.02)

    def stop(self) -> None:
        """Wait for the last upload."""
        self._end.set()
        self.join()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the last table.

    Args:
        kind: of trash, or of rows that look like it.
        what: number of partitions or keys.
        rows: number of rows.
        size_bytes: of keys and values.
        verdict: outcome.
        why: origin.
        right: whether the outcome is the expected one.
    """

    kind: str
    what: str
    rows: int
    size_bytes: int
    verdict: str
    why: str
    right: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells for a terminal."""
        why = self.why if self.right else f"{self.why}   <-- WRONG"
        return self.kind, self.what, f"{self.rows:,}", f"{self.size_bytes:,}", self.verdict, why


def tabulate(
    planted: Sequence[Planted], findings: Iterable[TrashFinding], before: set[Row], after: set[Row]
) -> list[Line]:
    """Compare the outcome of everything with the expected one.

    Args:
        planted: expected outcomes.
        findings: of the clean's scan.
        before: all rows before the clean.
        after: all rows after it.

    Returns:
        A line for each kind and origin; first removed ones.
    """
    found = {(finding.partition, finding.key): finding for finding in findings}
    groups: dict[tuple[bool, str, str], list[Planted]] = {}
    for each in planted:
        groups.setdefault((not each.removed, each.kind, each.why), []).append(each)
    lines = []
    for (stays, kind, why), members in sorted(groups.items(), key=lambda group: group[0]):
        rows = set[Row]().union(*(each.select_rows(before) for each in members))
        left = rows & after
        judged = [found.get((each.partition, each.key)) for each in members]
        named = all(
            finding is not None and (finding.kind, finding.verdict) == (each.kind, each.fate)
            for finding, each in zip(judged, members, strict=True)
        )
        verdict = "removed" if rows and not left else "kept" if left == rows else "MIXED"
        right = named and bool(rows) and verdict == ("kept" if stays else "removed")
        fate = "" if not stays else f" ({members[0].fate})"
        keys = members[0].key is not None
        what = f"{len(members)} {'key' if keys else 'partition'}{'s' if len(members) > 1 else ''}"
        lines.append(Line(kind, what, len(rows), count_bytes(rows), verdict + fate, why, right))
    return lines


def missing(planted: Sequence[Planted], before: set[Row], after: set[Row]) -> set[Row]:
    """Return rows that were removed or changed without being trash."""
    due = set[Row]().union(*(each.select_rows(before) for each in planted if each.removed))
    return before - due - after


def draw(lines: Iterable[Sequence[str]], head: Sequence[str]) -> str:
    """Draw a table for a terminal."""
    rows = [list(head), *(list(line) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    drawn = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([drawn[0], "-" * max(len(line) for line in drawn), *drawn[1:]])


def count_bytes(rows: Iterable[Row]) -> int:
    """Return the bytes of keys and values, as the cleaner counts them."""
    return sum(len(row.key) + len(row.value) for row in rows)
