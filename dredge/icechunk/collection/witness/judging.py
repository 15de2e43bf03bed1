"""Compare a repository with the records of earlier marks: kept snapshots, and questions for a person.

A snapshot was released if Dredge recorded its expiration, or if it was an ancestor of a still reachable snapshot at an
earlier mark, so that an expiration removed it from that history. Every other unreachable tip is lost: its ref was
deleted or reset, or older refs were restored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

from dredge.errors import FormatError, NotFoundError, WitnessError
from dredge.icechunk.collection.witness import record
from dredge.icechunk.format.envelope import FileType, open_file
from dredge.icechunk.format.flatbuffer import Buffer
from dredge.icechunk.format.metadata import REPO_KEY, instant, parse_snapshot
from dredge.icechunk.history import MAIN, History
from dredge.icechunk.ids import NODE_ID_BYTES, encode_id
from dredge.icechunk.maintenance import open_state
from dredge.icechunk.repository import SNAPSHOTS, TRANSACTIONS, list_snapshots, read_history, read_repo_info
from dredge.runs.consents import Consent, check_reason, read_consents, record_consent
from dredge.storage import ObjectReader, StorageOptions, open_reader, store_clock

_ANY_REF = "an unknown ref"
_COMMAND = 'dredge icechunk forget-lost {uri} --reason "…"'

MAIN_LABEL = f"branch:{MAIN}"


class Refusal(Struct, frozen=True):
    """A question for a person: observation, likely causes, remedies. `what` identifies it in a consent (JSON)."""

    message: str
    what: Mapping[str, Any]


class Judgement(Struct, frozen=True, kw_only=True):
    """The witnesses' result: the record for the next mark, kept lost tips, kept unreferenced snapshot files, released
    unreachable snapshots, refs of spec 1 in a repository of spec 2, and questions for a person."""

    known: record.Known
    lost: Mapping[str, record.LostTip]
    unnamed: frozenset[str]
    released: frozenset[str]
    old_refs: Sequence[record.OldRef] = ()
    refusals: Sequence[Refusal] = field(default_factory=list)

    def refuse(self, uri: str) -> None:
        """Raise WitnessError if there is a question for a person."""
        if self.refusals:
            text = " ".join(refusal.message for refusal in self.refusals)
            raise WitnessError(
                f"{uri}: {text} Nothing was deleted. If this state is intended, accept it: {_COMMAND.format(uri=uri)};"
                " lost snapshots are still kept for keep_lost_days."
            )


def judge(
    reader: ObjectReader,
    history: History,
    files: Mapping[str, datetime],
    known: record.Known,
    consents: Sequence[Consent],
    *,
    run_id: str,
    now: datetime,
    keep: timedelta,
) -> Judgement:
    """Ask the witnesses. Read-only."""
    said = _Said.of(consents, known.at)
    named = history.live()
    log = record.OperationsLog(reader, read_repo_info(reader)) if history.spec_version == 2 else None
    since = None if log is None or known.operation is None else log.since(known.operation)
    tip, released = _released(history, known, named, {})
    lost = find_lost(known, named, released, now)
    if lost and log is not None and since is not None:
        tip, released = _released(history, known, named, log.parents_before_drops(since))
        lost = find_lost(known, named, released, now)
    refusals = []
    if known.copied_back_at is not None:
        lost = {node: record.LostTip(_ANY_REF, now) for node in {*files}.difference(named)}
        if known.copied_back_at.isoformat() not in said.records:
            refusals.append(_record_copied_back(known))
    if since is not None and since.is_there is False and known.operation not in said.operations:
        refusals.append(_operation_gone(known))
    if (
        tip is not None
        and tip not in said.tips
        and _is_unexplained(reader, history, files, known, since, tip)
    ):
        refusals.append(_main_lost(known, tip, history.branches[MAIN]))
    old_refs = record.read_old_refs(reader) if log is not None else []
    migrated_at = known.migrated_at
    if old_refs and log is not None:
        migrated_at = log.migrated_at() if migrated_at is None else migrated_at
        later = [
            ref
            for ref in old_refs
            if (ref.label, ref.tip) not in said.old_refs and record.later_than(reader, ref, migrated_at)
        ]
        refusals += [_old_writer(later, migrated_at)] if later else []
    unnamed = find_unnamed(known, files, named, released, now, keep)
    return Judgement(
        known=record.Known(
            run_id=run_id,
            at=now,
            tips={ref.label: ref.tip for ref in history.refs},
            # Recorded while their files exist: another run may keep them longer than this one.
            lost={node: tip for node, tip in lost.items() if node in files or now - tip.since < keep},
            unnamed=unnamed,
            parents=record.next_parents(known.parents, history, files),
            released=frozenset(known.released & {*files}) - frozenset(named),
            operation=None if log is None else log.newest,
            migrated_at=migrated_at,
            root=first_of_main(history),
        ),
        lost={node: tip for node, tip in lost.items() if node in files and now - tip.since < keep},
        unnamed=frozenset(node for node, missed in unnamed.items() if now - missed < keep),
        released=released,
        old_refs=old_refs,
        refusals=refusals,
    )


def _released(
    history: History, known: record.Known, named: Collection[str], more: record.Parents
) -> tuple[str | None, frozenset[str]]:
    # The tip is that of main at the last mark, if it is lost. An expiration keeps main's tip: it was released only if
    # main itself continued from it, even if another ref had it as an ancestor. A lost tip stays lost, unless an
    # expiration by Dredge has released it since.
    of_main = find_released(known, history.reachable_from([history.branches[MAIN]]), more)
    tip = known.tips.get(MAIN_LABEL)
    if tip in named or tip in of_main:
        tip = None
    lost = {*known.lost} | ({tip} if tip is not None else set())
    return tip, find_released(known, named, more) - (lost - known.released)


class _Said(Struct, frozen=True):
    """Consents of persons; of tips and operations only consents since the last mark."""

    tips: frozenset[str]
    operations: frozenset[tuple[str, int]]
    old_refs: frozenset[tuple[str, str]]
    records: frozenset[str]

    @classmethod
    def of(cls, consents: Sequence[Consent], marked_at: datetime | None) -> _Said:
        named = [consent.what for consent in consents if consent.kind == record.FORGET_LOST]
        lately = [consent.what for consent in consents if marked_at is None or consent.at > marked_at]
        return cls(
            frozenset(what["tip"] for what in lately if "tip" in what),
            frozenset((what["operation"][0], what["operation"][1]) for what in lately if "operation" in what),
            frozenset((label, tip) for what in named for label, tip in what.get("old_refs", {}).items()),
            frozenset(what["record"] for what in named if "record" in what),
        )


def _is_unexplained(
    reader: ObjectReader,
    history: History,
    files: Collection[str],
    known: record.Known,
    since: record.Since | None,
    tip: str,
) -> bool:
    if tip not in files and known.root != first_of_main(history):
        return False  # another repository was created under the name, and the old one's files are deleted
    if since is not None and since.is_there and since.moved_back(MAIN):
        return False
    return history.spec_version == 2 or not cut_after(reader, history, tip)


def _record_copied_back(known: record.Known) -> Refusal:
    assert known.written_at is not None
    assert known.copied_back_at is not None
    left_by = f"run {known.run_id}" if known.run_id else "an expiration"
    return Refusal(
        f"_dredge/{record.KNOWN}, which {left_by} wrote at {known.written_at:%Y-%m-%d %H:%M} UTC, was copied back at"
        f" {known.copied_back_at:%Y-%m-%d %H:%M} UTC, so commits in between are unknown. If refs/ or repo was"
        " restored with it, restore the newest state. If the whole repository was copied, accept this state.",
        {"record": known.copied_back_at.isoformat()},
    )


def _main_lost(known: record.Known, tip: str, now: str) -> Refusal:
    return Refusal(
        f"{tip}, the tip of main in run {known.run_id}, is unreachable (main is at {now}), but no expiration released"
        " it. If refs were restored from a backup, restore the newest state. If main was reset, accept this state.",
        {"tip": tip, "ref": MAIN_LABEL},
    )


def _operation_gone(known: record.Known) -> Refusal:
    assert known.operation is not None
    kind, at = known.operation
    return Refusal(
        f"the operations log of {REPO_KEY} lacks the operation {kind!r} of {instant(at).isoformat()}, which run"
        f" {known.run_id} read in it. So {REPO_KEY} was replaced by an earlier version or by another repo info."
        " Restore the newest version, or accept this one.",
        {"operation": [kind, at]},
    )


def _old_writer(refs: Sequence[record.OldRef], migrated_at: int | None) -> Refusal:
    shown = ", ".join(f"{ref.label} at {ref.tip} ({ref.written_at.isoformat()})" for ref in refs[:5])
    when = "at an unknown time" if migrated_at is None else instant(migrated_at).isoformat()
    return Refusal(
        f"{len(refs)} refs of spec 1 were written after the upgrade to spec 2 ({when}), such as {shown}: a program"
        f" still writes spec 1, and {REPO_KEY} lacks its commits. Stop the program. To keep its commits, open a copy"
        f" of the repository without the file {REPO_KEY}, and write the data again.",
        {"old_refs": {ref.label: ref.tip for ref in refs}},
    )


_NEW, _DELETED = (1, 2), (3, 4)
"""Slots of a transaction log for new and for deleted nodes: groups, arrays."""


def find_released(known: record.Known, named: Collection[str], more: record.Parents) -> frozenset[str]:
    """Find the released, unreachable snapshots."""
    found: set[str] = set()
    waiting = list(named)
    while waiting:
        node = waiting.pop()
        for links in (known.parents, more):
            parents = links.get(node, frozenset()) - found
            found |= parents
            waiting += parents
    return (known.released | found) - frozenset(named)


def find_lost(
    known: record.Known, named: Collection[str], released: Collection[str], now: datetime
) -> dict[str, record.LostTip]:
    """Find the lost tips, each with the time of the first mark without it."""
    found = {tip: record.LostTip(label, now) for label, tip in known.tips.items()} | dict(known.lost)
    return {node: tip for node, tip in found.items() if node not in named and node not in released}


def find_unnamed(
    known: record.Known,
    files: Mapping[str, datetime],
    named: Collection[str],
    released: Collection[str],
    now: datetime,
    keep: timedelta,
) -> dict[str, datetime]:
    """Find the unreferenced, unreleased snapshot files, with the time when a mark first found each. New files are those
    written in the last `keep`, or since the last complete mark if that is longer."""
    found = {
        node: now
        for node, time in files.items()
        if now - time < keep or (known.at is not None and time >= known.at)
    } | dict(known.unnamed)
    return {
        node: missed
        for node, missed in found.items()
        if node in files and node not in named and node not in released
    }


def cut_after(reader: ObjectReader, history: History, lost: str) -> bool:
    """Return whether an expiration by the library may have released main's former tip (spec 1). If so, the first
    snapshot of main's history is newer than the lost tip and was not committed on the root: its transaction log has
    fewer new nodes than the snapshot has nodes."""
    path = history.ancestry(history.branches[MAIN])
    if len(path) < 2:
        return False
    oldest = path[-2]
    try:
        before = parse_snapshot(reader.get(SNAPSHOTS + lost), lost).flushed_at
        nodes = {node.id for node in parse_snapshot(reader.get(SNAPSHOTS + oldest), oldest, nodes=True).nodes}
        new, deleted = _logged(reader, oldest)
    except (NotFoundError, FormatError):
        return False
    return history.snapshots[oldest].flushed_at > before and (deleted or not nodes <= new)


def _logged(reader: ObjectReader, snapshot: str) -> tuple[set[str], bool]:
    key = TRANSACTIONS + snapshot
    root = Buffer(open_file(reader.get(key), key, FileType.TRANSACTION_LOG).view, key).root()
    new = {encode_id(raw) for slot in _NEW for raw in root.structs(slot, NODE_ID_BYTES)}
    return new, any(True for slot in _DELETED for _ in root.structs(slot, NODE_ID_BYTES))


def first_of_main(history: History) -> tuple[str, int]:
    """Return id and time of main's first snapshot, which identify the life of the repository."""
    *_, first = history.path(history.branches[MAIN])
    return first.id, first.flushed_at


def ask_witnesses(uri: str, options: StorageOptions | None = None) -> Judgement:
    """Find lost tips, and the refusals of the next run. Read-only; raises as `repository.read_history`."""
    reader, state = open_reader(uri, options), open_state(uri, options)
    history = read_history(reader)
    return judge(
        reader,
        history,
        {node: info.last_modified for node, info in list_snapshots(reader).items()},
        record.read_known(state)[0],
        read_consents(state, record.FORGET_LOST),
        run_id="",
        now=store_clock(state, ""),
        keep=timedelta.max,
    )


def forget_lost(
    uri: str, why: str, who: str | None = None, options: StorageOptions | None = None
) -> list[str]:
    """Record a person's consent to the refused state; returns the accepted refusals. Raises as `ask_witnesses`, and
    ConfigError without a reason."""
    reason = check_reason(why)
    found, state = ask_witnesses(uri, options), open_state(uri, options)
    for refusal in found.refusals:
        record_consent(state, record.FORGET_LOST, uri, reason, refusal.what, who)
    return [refusal.message for refusal in found.refusals]
