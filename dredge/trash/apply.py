"""Removal of trash beside a live server.

For every small group of partitions and keys, until the plan is done:

    1  read their rows, then all references (one point in time, if the store has snapshots)
    2  if a record references an earlier removal: restore it, stop
    3  keep rows that a record references, or whose bytes differ from the plan
    4  write the rows to the undo log and flush it
    5  check that this is the newest try and that its lease is valid: an orphaned process stops here
    6  delete each row only with its exact value, and only if the rows that could reference it are as in 1

Steps 1 and 2 run once more at the end. Partitions come first, queue markers last, and a marker, or the entry of a
deleted repository, only if its partition is empty. A repetition is safe: deleted rows are missing, and the others are
checked again.

Guards of a delete are the rows that could come to reference it. Few records can: a staging token is only ever
referenced by a branch whose repository and name are in its text, an instance only by the record of its repository. The
deleting transaction checks these rows (with their value, or as absent), so a new reference makes it fail. Guards cannot
see an operation that has written no record yet, such as a reset by prefix that fills a token; the wait covers those.

Source: docs/trash.md; L63 to L70 of docs/lakefs-behaviour.md.
"""

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import batched
from typing import Literal

from msgspec import Struct

from dredge.errors import AlarmError, UnavailableError
from dredge.kv.rows import Entry, Guard, GuardFailedError, Row, RowCleaner, RowView
from dredge.trash import rules
from dredge.trash.findings import HANDED_OVER, INSTANCE_MARGIN, TrashFinding
from dredge.trash.look import Contents, References, contents_of, read_references, value_digest
from dredge.trash.names import (
    ACTIONS,
    BRANCH_PREFIX,
    DELETED,
    MARKERS,
    OWNERS,
    PULLS,
    REPOSITORIES,
    REPOSITORY_PREFIX,
    deleted_instance,
    parse_instance,
    possible_branches,
)
from dredge.trash.undo import UndoLog, put_back


def guards_of(finding: TrashFinding, value: bytes | None, references: References) -> list[Guard]:
    """The rows in the delete's conditions; `value` is the value of the finding's row, None for a partition."""
    if finding.key is None:
        instance = parse_instance(finding.partition)
        if instance is not None:
            return [_record_guard(instance.repository, references)]
        return list(_branch_guards(finding.partition, references))
    if finding.partition == MARKERS:
        return list(_branch_guards(finding.key, references))
    guards = list(_key_guards(finding.partition, finding.key, value or b"", references))
    if finding.kind == rules.OF_MISSING_RUN:
        guards.append(Guard(ACTIONS, rules.run_of_action(finding.key), None))
    return guards


def named_now(finding: TrashFinding, references: References) -> bool:
    """Whether a record references a finding now."""
    if finding.key is None:
        return finding.partition in references.partitions or finding.partition in references.tokens
    if finding.partition == MARKERS:
        return finding.key in references.tokens
    if finding.partition == DELETED:
        return _emptied_first(finding) in references.partitions
    if finding.kind == rules.OF_MISSING_REPOSITORY:
        return rules.repository_of_action(finding.key) in references.repositories
    if finding.kind == rules.OF_EARLIER_LIFE:
        return _may_be_of_this_life(finding, references)
    if finding.partition == OWNERS:
        found = rules.branch_of_owner(finding.key)
        record = references.repositories.get(found[0]) if found else None
        return record is not None and found is not None and found[1] in references.branches[record.partition]
    return False


def _may_be_of_this_life(finding: TrashFinding, references: References) -> bool:
    # A person may have restored the record of an earlier life.
    record = references.repositories.get(rules.repository_of_action(finding.key or b"") or "")
    return record is not None and (finding.since is None or finding.since >= record.created - INSTANCE_MARGIN)


def _emptied_first(finding: TrashFinding) -> bytes | None:
    """The partition without rows before a queue marker, or an entry of a deleted repository, is removed."""
    if finding.partition == DELETED:
        instance = deleted_instance(finding.key or b"")
        return instance.partition if instance else None
    return finding.key if finding.partition == MARKERS else None


def _key_guards(partition: bytes, key: bytes, value: bytes, references: References) -> Iterator[Guard]:
    if partition == PULLS:
        found = rules.pull_of_index(key, value)
        instance = parse_instance(found[0]) if found else None
        if found and instance:
            yield _record_guard(instance.repository, references)
            yield Guard(found[0], b"pulls/" + found[1].encode(), None)
    elif partition == ACTIONS:
        repository = rules.repository_of_action(key)
        if repository:
            yield _record_guard(repository, references)
    elif partition == DELETED:
        instance = deleted_instance(key)
        if instance:
            yield _record_guard(instance.repository, references)
    elif partition == OWNERS:
        owner = rules.branch_of_owner(key)
        if owner:
            yield _record_guard(owner[0], references)
            record = references.repositories.get(owner[0])
            if record:
                yield Guard(record.partition, BRANCH_PREFIX + owner[1].encode(), None)


def _record_guard(repository: str, references: References) -> Guard:
    record = references.repositories.get(repository)
    key = REPOSITORY_PREFIX + repository.encode()
    return Guard(REPOSITORIES, key, record.value if record else None)


def _branch_guards(token: bytes, references: References) -> Iterator[Guard]:
    # Each branch that fits the token's text, in each life of its repository.
    for repository, branch in possible_branches(token):
        for partition in references.lives.get(repository, ()):
            record = references.branches[partition].get(branch)
            yield Guard(partition, BRANCH_PREFIX + branch.encode(), record.value if record else None)


log = logging.getLogger("dredge")

GROUP_ROWS = 500
GUARD_TRIES = 3

Fate = Literal["deleted", "partly", "changed", "named", "busy", "gone"]


class Outcome(Struct, frozen=True):
    """The outcome of a finding."""

    finding: TrashFinding
    # `deleted`: whole; `partly`: some rows had changed and stayed; `changed`: other bytes than planned;
    # `named`: a record references it now; `busy`: its guards kept changing; `gone`: it had no rows
    fate: Fate
    rows: int


class NamedAgainError(AlarmError):
    """A record references removed rows. They were restored from the undo files, and the run stopped."""

    what_to_do = (
        "Find out why a record references rows that were unreferenced for the whole grace: an operation of the server"
        " took longer than the grace (lengthen it), or the database was restored from a backup. Nothing is removed"
        " until you acknowledge the alarm: `dredge trash acknowledge STATE --reason`."
    )


class Applier:
    """Removes the trash of one plan. `check_right`: called right before each deletion; raises if a later try has taken
    over. `unrecorded`: partitions with the shape of a repository and without a record; the references of their branches
    count too. `alarm`: surrounds a restore, with the referenced names."""

    def __init__(
        self,
        store: RowCleaner,
        undo: UndoLog,
        check_right: Callable[[], None],
        unrecorded: Iterable[bytes] = (),
        *,
        alarm: Callable[[Collection[bytes]], AbstractContextManager[object]] = nullcontext,
        group_rows: int = GROUP_ROWS,
    ) -> None:
        self._store = store
        self._undo = undo
        self._check_right = check_right
        self._unrecorded = frozenset(unrecorded)
        self._alarm = alarm
        self._group_rows = group_rows
        self._removed: set[bytes] = set()
        self._markers: set[bytes] = set()
        self.rows_deleted = 0
        self.outcomes: list[Outcome] = []

    def run(self, findings: Sequence[TrashFinding]) -> list[Outcome]:
        """Remove the trash of both looks of a run.

        Returns:
            The outcomes; also in `outcomes` after an error.

        Raises:
            NamedAgainError: a record references a removal; it was restored.
            LeaseHeldError: another run or a later try has taken over.
            UnavailableError: the store does not answer, also for one deleted repository. The next run starts with
                `verify_removed`.
        """
        failed: list[UnavailableError] = []
        for group in _groups(findings, self._group_rows, self._store.guards_max):
            if _is_repository(group[0]):
                failed += self._repositories(group)
            else:
                self._group(group)
        self._look()
        if failed:
            raise failed[0]
        return self.outcomes

    def verify_removed(self, standing: Collection[bytes] = ()) -> None:
        """Check the removals of a crashed run, by its undo log. `standing`: partitions that only lost single keys;
        records may reference them. Raises NamedAgainError: a record references a removal; it was restored."""
        self._removed |= {row.partition for row in self._undo.read()}.difference(standing)
        self._look()

    @property
    def removed_partitions(self) -> list[bytes]:
        """Partitions with deleted, or possibly deleted, and not restored rows."""
        return sorted(self._removed)

    @property
    def removed_markers(self) -> list[bytes]:
        """Tokens with deleted, or possibly deleted, markers."""
        return sorted(self._markers)

    def _repositories(self, group: Sequence[TrashFinding]) -> list[UnavailableError]:
        """Remove deleted repositories in one deletion; those that it left without an outcome one by one, each after
        another read of the references. As in lakeFS's design, a failure stops no other; returns the failures."""
        error: UnavailableError | None = None
        try:
            self._group(group)
        except UnavailableError as found:
            error = found
        if len(group) == 1:
            text = f"{group[0].name} may not be empty: {error} The next run tries again."
            return [UnavailableError(text)] if error else []
        done = {outcome.finding.partition for outcome in self.outcomes}
        left = [finding for finding in group if finding.partition not in done]
        return [failure for finding in left for failure in self._repositories([finding])]

    def _group(self, group: Sequence[TrashFinding]) -> None:
        with self._store.view() as view:
            # Rows before references, so that the references include all that are written in between.
            loaded = [(finding, _load(view, finding, self._group_rows)) for finding in group]
            references = self._references(view)
            self._check_removed(references)
            if len(group) == 1 and group[0].key is None and group[0].rows > self._group_rows:
                self._large(view, group[0], references)
                return
        doomed: list[tuple[TrashFinding, list[Row]]] = []
        for finding, rows in loaded:
            fate = _fate(finding, rows, references)
            if fate is None:
                doomed.append((finding, rows or []))
            else:
                self._done(finding, fate, 0)
        if doomed:
            self._undo.write([row for _, rows in doomed for row in rows])
        for together, guards in self._batches(doomed, references):
            self._delete_together(together, guards, references)

    def _batches(
        self, doomed: Sequence[tuple[TrashFinding, list[Row]]], references: References
    ) -> Iterator[tuple[list[tuple[TrashFinding, list[Row]]], set[Guard]]]:
        """Split the findings by the store's maximum of guards."""
        batch: list[tuple[TrashFinding, list[Row]]] = []
        guards: set[Guard] = set()
        for finding, rows in doomed:
            own = set(guards_of(finding, rows[0].value, references))
            if batch and len(guards | own) > self._store.guards_max:
                yield batch, guards
                batch, guards = [], set()
            batch.append((finding, rows))
            guards |= own
        if batch:
            yield batch, guards

    def _delete_together(
        self, doomed: Sequence[tuple[TrashFinding, list[Row]]], guards: set[Guard], references: References
    ) -> None:
        """Delete several findings at once; after a failed guard the rest separately."""
        self._check_right()
        try:
            done = self._store.delete_rows(
                [row for _, rows in doomed for row in rows], sorted(guards, key=lambda guard: guard[:2])
            )
        except GuardFailedError as error:
            done = error.outcomes
        except UnavailableError:
            for finding, _ in doomed:
                self._note_removed(finding)  # perhaps
            raise
        self.rows_deleted += sum(done)
        place = 0
        for finding, rows in doomed:
            mine = done[place : place + len(rows)]
            place += len(rows)
            gone, busy, left = sum(mine), False, rows[len(mine) :]
            if gone:
                self._note_removed(finding)
            elif left and _is_repository(finding) and len(doomed) > 1:
                continue  # without an outcome: `_repositories` reads the references again and tries this one alone
            if left:
                more, busy = self._delete_rows(finding, left, references)
                gone += more
            self._done(
                finding, "deleted" if gone == len(rows) else "busy" if busy and not gone else "partly", gone
            )

    def _large(self, view: RowView, finding: TrashFinding, references: References) -> None:
        """Remove a partition of any size; only digests of its rows are in memory."""
        contents, seen = noted_contents(view, finding.partition)
        if contents is None or contents.digest != finding.digest:
            self._done(finding, "gone" if contents is None else "changed", 0)
            return
        if named_now(finding, references):
            self._done(finding, "named", 0)
            return
        total = 0
        rows = (
            Row(finding.partition, entry.key, entry.value)
            for entry in view.scan(finding.partition)
            if row_digest(entry.key, entry.value) in seen
        )
        for chunk in batched(rows, self._group_rows):
            references = self._look()
            if named_now(finding, references):
                break
            self._undo.write(chunk)
            gone, busy = self._delete_rows(finding, chunk, references)
            total += gone
            if busy:
                break
        self._done(finding, "deleted" if total == contents.rows else "partly", total)

    def _delete_rows(
        self, finding: TrashFinding, rows: Sequence[Row], references: References
    ) -> tuple[int, bool]:
        """Delete under guards, and check a failed guard again. Returns the number of deleted rows, and whether the
        guards kept changing."""
        left, gone = list(rows), 0
        for _ in range(GUARD_TRIES):
            guards = guards_of(finding, rows[0].value, references)
            self._check_right()
            try:
                done, failed = self._store.delete_rows(left, guards), False
            except GuardFailedError as error:
                done, failed = error.outcomes, True
            except UnavailableError:
                self._note_removed(finding)  # perhaps
                raise
            gone += sum(done)
            self.rows_deleted += sum(done)
            left = left[len(done) :]
            if gone:
                self._note_removed(finding)
            if not failed:
                return gone, False
            references = self._look()
            if named_now(finding, references):
                break
        return gone, True

    def _note_removed(self, finding: TrashFinding) -> None:
        if finding.key is None:
            self._removed.add(finding.partition)
        elif finding.partition == MARKERS:
            self._markers.add(finding.key)

    def _look(self) -> References:
        """Read all references now, and restore removed rows with a reference."""
        with self._store.view() as view:
            references = self._references(view)
        self._check_removed(references)
        return references

    def _references(self, view: RowView) -> References:
        return read_references(view, self._unrecorded)

    def _check_removed(self, references: References) -> None:
        named = self._removed & (set(references.partitions) | set(references.tokens))
        if not named:
            return
        with self._alarm(named):
            written, existing = put_back(self._store, self._undo.read(lambda row: row.partition in named))
        self._removed -= named
        names = ", ".join(name.decode("utf-8", "backslashreplace") for name in sorted(named))
        raise NamedAgainError(
            f"{names}: removed as trash; a record references it now. {written} rows were restored ({existing} keys"
            " existed already), and the run stopped. One cause is an operation of the server that takes longer than"
            " the grace."
        )

    def _done(self, finding: TrashFinding, fate: Fate, rows: int) -> None:
        self.outcomes.append(Outcome(finding, fate, rows))
        log.info("trash: %s (%s): %s, %d rows", finding.name, finding.kind, fate, rows)


def _is_repository(finding: TrashFinding) -> bool:
    """Whether a finding is the partition of a repository that was handed over."""
    return finding.key is None and finding.kind == HANDED_OVER


def _groups(findings: Iterable[TrashFinding], most: int, guards_max: int) -> Iterator[list[TrashFinding]]:
    # Partitions first, then keys, markers last; small findings share a read of the references. A group of deleted
    # repositories, each with one guard, is one deletion; its removals are compared with the references before the next
    # deletion.
    def place(finding: TrashFinding) -> tuple[bool, bool, bool]:
        return finding.key is not None, finding.partition == MARKERS, _is_repository(finding)

    group: list[TrashFinding] = []
    rows = 0
    for finding in sorted(findings, key=lambda f: (*place(f), f.partition, f.key or b"")):
        is_full = rows + finding.rows > most or (_is_repository(finding) and len(group) == guards_max)
        if group and (is_full or place(finding) != place(group[0])):
            yield group
            group, rows = [], 0
        group.append(finding)
        rows += finding.rows
    if group:
        yield group


def _load(view: RowView, finding: TrashFinding, most: int) -> list[Row] | None:
    """A finding's rows; [] for a large partition, None for a marker or entry with rows in its partition."""
    if finding.key is not None:
        entry = next(iter(view.scan(finding.partition, finding.key)), None)
        rows = [Row(finding.partition, entry.key, entry.value)] if entry and entry.key == finding.key else []
        first = _emptied_first(finding)
        if first is not None and next(iter(view.scan(first)), None) is not None:
            return None
        return rows
    if finding.rows > most:
        return []
    return [Row(finding.partition, entry.key, entry.value) for entry in view.scan(finding.partition)]


def _fate(finding: TrashFinding, rows: Sequence[Row] | None, references: References) -> Fate | None:
    """The reason to keep a finding; None to delete it."""
    if not rows:
        return "changed" if rows is None else "gone"
    if finding.key is None:
        contents = contents_of(rows)
        digest = contents.digest if contents else ""
    else:
        digest = value_digest(rows[0].value)
    if digest != finding.digest:
        return "changed"
    return "named" if named_now(finding, references) else None


def row_digest(key: bytes, value: bytes) -> bytes:
    """A short digest of a row."""
    return hashlib.blake2b(b"%d:" % len(key) + key + value, digest_size=16).digest()


def noted_contents(view: RowView, partition: bytes) -> tuple[Contents | None, set[bytes]]:
    """Summary of a partition (None without rows), and the digests of its rows."""
    seen: set[bytes] = set()

    def noting() -> Iterator[Entry]:
        for entry in view.scan(partition):
            seen.add(row_digest(entry.key, entry.value))
            yield entry

    return contents_of(noting()), seen
