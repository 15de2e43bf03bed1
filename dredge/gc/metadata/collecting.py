"""Collects metadata: finds range and metarange files that no commit names, and lets those go that have waited.

    files of _lakefs/ ─▶ what commits name ─▶ pending list ─▶ has waited? ─▶ copies ─▶ what commits name by now
        ─▶ the very versions that were looked at are deleted ─▶ what commits name by now is put back

Each run first puts back what a commit has come to name and an earlier run let go, and at its end lets copies go that
are too old for that. `docs/decisions/metadata.md` has the argument: what makes it safe is that a commit writes its
files before it names them, so that they are other versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from dredge.errors import RefusedError, UnavailableError
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.metadata.config import DELETE, MetadataConfig
from dredge.gc.metadata.files import GARBAGE_METARANGES, Named, sort_files
from dredge.gc.metadata.history import Place
from dredge.gc.metadata.named import Asking, Names, NamesReader
from dredge.gc.metadata.output import MetadataOutput
from dredge.gc.metadata.taking import (
    DELETED,
    FAILED,
    KEPT,
    PURGED,
    UNSENT,
    File,
    Taken,
    copy_aside,
    delete_files,
    find_copies,
    old_copies,
    purge_copies,
    put_back,
    versions_of,
)
from dredge.gc.metadata.waiting import WaitingFiles
from dredge.gc.namespaces import METADATA, refuse_sharing
from dredge.gc.plan import METADATA_RUNS
from dredge.gc.undo import side_run
from dredge.gc.witness.owner import check_before_deleting
from dredge.gc.witness.ownership import Site
from dredge.gc.witness.past import Past
from dredge.gc.witness.unnamed import Known, sort_out
from dredge.lakefs import LakeFS, LakeFSClient
from dredge.lakefs.files.ranges import is_table_id
from dredge.runs.clock import Clock, utc_now
from dredge.runs.gate import Gate, watching
from dredge.runs.payload import to_json
from dredge.runs.steps import StepRecord
from dredge.runs.summary import StepSummary
from dredge.storage import ObjectInfo, StorageOptions, open_versions
from dredge.storage.model import MaySend
from dredge.undo.alarms import refuse_alarmed
from dredge.undo.side_run import LOOK_SECONDS, SideRun


def collect_metadata(
    config: MetadataConfig,
    holder: str | None = None,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
    access: KVAccess | None = None,
) -> StepSummary:
    """Find which range and metarange files no commit names, put back what one has come to name, and let go what has
    waited, where that is asked for.

    Args:
        config: what is asked for.
        holder: who takes the lease; None is this run alone.
        client: the lakeFS server; None reads the environment.
        options: how stores are reached; None reads the environment.
        clock: this machine's clock.
        access: to lakeFS's key-value store; None reads the environment.

    Raises:
        LeaseHeldError: another run works on the repository.
        ConfigError: the key-value store is not named.
        RefusedError: it is another installation's, or a newer version of Dredge left the pending list.
        FormatError: a record or a metarange of a commit is damaged.
        UnavailableError: something could not be deleted.
    """
    server, records = client or LakeFSClient.from_env(), access or KVAccess.from_env()

    def place(namespace: str) -> str:
        return f"{namespace.rstrip('/')}/{METADATA_RUNS}"

    with side_run(
        config.repository, place, "metadata", to_json(config), holder, server, options, clock
    ) as run:
        asking = Asking(server, Place(run.plan.repository, run.plan.namespace), records)
        collection = _Collection(run, config, NamesReader(asking, run.reader))
        return run.step(MetadataOutput, collection.perform)


@dataclass(slots=True)
class _Collection:
    """One run; see the module."""

    run: SideRun
    config: MetadataConfig
    names: NamesReader

    def perform(self, record: StepRecord) -> None:
        if self.config.metadata == DELETE and not self.config.dry_run:
            self._check_owner()
        # Files before commits: what is committed meanwhile is named when the commits are read.
        files = self.run.reader.list_level(METADATA).objects
        found = self.names.read()
        self._put_back(record, found, {info.key.removeprefix(METADATA) for info in files})
        why_not = self._why_not(found)
        record.details["why_not"] = why_not
        named = found.files | self._about_to_be_named(files, found)
        garbage = self._garbage(files, named)
        waiting = WaitingFiles(self.run, self._site, self.config, record)
        chosen = self._chosen(garbage, waiting.advance(garbage, named, why_not))
        record.counts.update(
            files=len(files),
            garbage_files=len(garbage),
            garbage_bytes=sum(file.size for file in garbage),
            waiting_files=record.details["pending"]["waiting"]["objects"],
            confirmed_files=len(chosen),
            confirmed_bytes=sum(file.size for file in chosen),
        )
        if self.config.dry_run:
            record.status = "dry_run"
        if self.config.metadata != DELETE:
            return
        if why_not:
            record.warn(f"no file of _lakefs/ goes: {why_not}")
        if chosen and not self.config.dry_run:
            self._let_go(record, chosen)
        if not why_not:
            self._purge_copies(record, found)

    @property
    def _site(self) -> Site:
        plan = self.run.plan
        return Site(self.run.state, self.names.asking.client, plan.repository, plan.run_id)

    def _about_to_be_named(self, files: Sequence[ObjectInfo], found: Names) -> set[str]:
        """Metaranges that count as active commits in collections of objects although no commit names them, and the
        ranges that these and young metaranges name: a commit that is under way may have written its metarange, and
        without the file nobody would know what a commit named that was lost, or that waits in a hook."""
        plan, cutoff = self.run.plan, self.run.plan.created_at - self.config.min_age
        past = Past.read(self.run.state, plan.namespace)
        tables = {info.key.removeprefix(METADATA): info for info in files}
        tables = {name: info for name, info in tables.items() if is_table_id(name)}
        known = Known(
            named=found.files,
            earlier=past.metaranges,
            ranges=(),
            kinds=past.kinds,
            forgotten=past.forgotten,
        )
        since = past.since(plan.created_at, timedelta(days=self.config.keep_unnamed_days))
        lost = sort_out(
            self.run.reader, self.run.state, plan.namespace, tables, known, cutoff=cutoff, since=since
        ).lost
        young = {name for name, info in tables.items() if info.last_modified >= cutoff} - found.files
        return lost | self.names.of_tables(sorted(lost | young))

    def _garbage(self, files: Sequence[ObjectInfo], named: set[str]) -> list[File]:
        """Tables that are old, and that nothing names; with all their versions, metaranges first."""
        cutoff = self.run.plan.created_at - self.config.min_age
        kinds = sort_files(self.run.reader, files, Named(named, set(), []), cutoff).garbage
        infos = {info.key.removeprefix(METADATA): info for info in files}
        unnamed = [(name, kind) for kind, these in kinds.items() for name in these]
        versions = versions_of(
            self.run.plan.namespace, [name for name, _ in unnamed], cutoff, self.run.options
        )
        return [
            File(name, kind, infos[name].size, ids, infos[name].last_modified)
            for (name, kind), ids in zip(unnamed, versions, strict=True)
        ]

    def _chosen(self, garbage: Sequence[File], confirmed: set[str]) -> list[File]:
        """What has waited, metaranges first; but no range of a metarange that stays."""
        chosen = [file for file in garbage if file.name in confirmed]
        stays = [
            file.name for file in garbage if file.kind == GARBAGE_METARANGES and file.name not in confirmed
        ]
        needed = self.names.of_tables(stays)
        return [file for file in chosen if file.name not in needed]

    def _why_not(self, found: Names) -> str:
        """Why nothing may go; "" when it may."""
        if shared := self._shared():
            return shared
        if found.standing.doubt:
            return f"the records of commits are not all there is: {found.standing.doubt}"
        if found.at_work:
            return f"at work are {', '.join(found.at_work[:5])}: what they write may be about to be named"
        past = Past.read(self.run.state, self.run.plan.namespace)
        if past.record is None:
            return "no run of lakefs_gc has left a complete mark here, which would tell of an older database"
        if lost := past.active_metaranges - found.files:
            return (
                f"no commit names metarange {min(lost)} now, and one did that the last mark of lakefs_gc called active:"
                " lakeFS's database was put back from a backup, or is another one"
                f" (`dredge gc lost {self.run.plan.repository}` lists what was lost)"
            )
        if found.missing:
            return f"metarange {found.missing[0]} of a commit is not there, so that nobody knows which ranges it names"
        versioning = open_versions(self.run.plan.namespace, self.run.options).versioning()
        if versioning != "enabled":
            return (
                f"the bucket keeps no versions (versioning is {versioning}), so that a file which a commit writes right"
                " before it is deleted would go"
            )
        return ""

    def _check_owner(self) -> None:
        """Refuse to delete in a namespace that is blocked, or another server's, or while an alarm is open."""
        check_before_deleting(self._site)
        refuse_alarmed(self.run.state, f"run {self.run.plan.run_id} deletes no metadata")

    def _shared(self) -> str:
        """Why other repositories may need the files, too: their commits are in none of these records. "" when not."""
        plan = self.run.plan
        namespaces = {item.name: item.namespace for item in self.names.asking.client.repositories()}
        try:
            refuse_sharing(plan.repository, plan.namespace, namespaces)
        except RefusedError as error:
            return str(error)
        return ""

    def _let_go(self, record: StepRecord, chosen: list[File]) -> None:
        plan, options = self.run.plan, self.run.options
        copied = copy_aside(plan.namespace, self.run.folder.uri, chosen, options)
        taken = [failed for failed in copied if failed is not None]
        ready = [file for file, failed in zip(chosen, copied, strict=True) if failed is None]
        found = self.names.read()
        why_not = self._why_not(found)
        if why_not:
            record.warn(f"no file of _lakefs/ goes: {why_not}")
        for file in ready:
            if why_not or file.name in found.files:
                taken.append(Taken(file, KEPT, why_not or "a commit names it by now"))
        gone = [file for file in ready if not why_not and file.name not in found.files]
        taken += self._delete(record, gone)
        self._write_ledger(record, taken)
        found = self.names.read()
        there = {info.key.removeprefix(METADATA) for info in self.run.reader.list_level(METADATA).objects}
        self._put_back(record, found, there)

    def _purge_copies(self, record: StepRecord, found: Names) -> None:
        """Let copies go that no run puts back any more, under the same conditions as files, but for those of files that
        a commit names."""
        plan, options = self.run.plan, self.run.options
        taken: list[Taken] = []
        for copies in old_copies(
            plan.namespace, found.files, plan.created_at, self.config.keep_copies_days, options
        ):
            old = len(copies.files), sum(file.size for file in copies.files)
            record.add(old_copies=old[0], old_copies_bytes=old[1], kept_copies=len(copies.kept))
            if not self.config.dry_run:
                with self._gate(record) as may_send:
                    taken += purge_copies(copies, may_send, options)
        if not self.config.dry_run and taken:
            record.add(purged_copies=sum(item.outcome == PURGED for item in taken))
            self._write_outcomes(record, "copies", taken)

    @contextmanager
    def _gate(self, record: StepRecord) -> Iterator[MaySend]:
        """What each request that deletes must pass."""
        self._check_owner()
        watched = f"{MetadataOutput.STEP}/_watch/{record.attempt.number:03d}.json"
        with watching(self.run.folder, self.run.state, watched, lambda: None, LOOK_SECONDS):
            gate = Gate(self.run.folder, self.run.state, self.run.gate(watched))
            gate.is_open()  # raises what is wrong
            yield gate.lets_through

    def _delete(self, record: StepRecord, files: Sequence[File]) -> list[Taken]:
        with self._gate(record) as may_send:
            return list(delete_files(self.run.plan.namespace, files, may_send, self.run.options))

    def _write_ledger(self, record: StepRecord, taken: Sequence[Taken]) -> None:
        self._write_outcomes(record, "ledger", taken)
        for outcome in (DELETED, KEPT, FAILED, UNSENT):
            these = [item for item in taken if item.outcome == outcome]
            record.counts[f"{outcome}_files"] = len(these)
            record.counts[f"{outcome}_bytes"] = sum(item.file.size for item in these)

    def _write_outcomes(self, record: StepRecord, name: str, taken: Sequence[Taken]) -> None:
        """Write what became of files or copies; an error where some are left to do."""
        columns = {
            "name": [item.file.name for item in taken],
            "size": [item.file.size for item in taken],
            "outcome": [item.outcome for item in taken],
            "message": [item.message for item in taken],
        }
        record.parts.append(self.run.folder.write_table(MetadataOutput.STEP, 0, pa.table(columns), name))
        left = [item for item in taken if item.outcome in (FAILED, UNSENT)]
        if left:
            record.status = "partial"
            record.error = UnavailableError(
                f"{len(left):,} files of _lakefs/ or copies of them could not be deleted, such as {left[0].file.name}"
                f" ({left[0].message}). A later run tries again."
            )

    def _put_back(self, record: StepRecord, found: Names, there: set[str]) -> None:
        """Put back what commits name and is not there. A metarange that came back may name more."""
        plan, options = self.run.plan, self.run.options
        for _ in range(2):
            missing = found.files - there
            copies = find_copies(
                plan.namespace, missing, plan.created_at, self.config.keep_copies_days, options
            )
            if not copies:
                return
            if self.config.dry_run:
                record.add(would_come_back_files=len(copies))
                return
            back = put_back(plan.namespace, copies, options)
            record.add(put_back_files=len(back))
            record.warn(
                f"{len(back):,} files of _lakefs/ that a commit has come to name were put back, such as"
                f" {next(iter(back), 'none')}. Whatever names files without writing them must not run beside"
                " metadata = delete"
            )
            there |= copies.keys()
            more, found.missing = self.names.closure(found.missing)
            found.files |= more
