"""A collection of metadata: deletes range and metarange files without a commit after a wait.

    files of _lakefs/ ─▶ files in use ─▶ pending list ─▶ wait over? ─▶ copies ─▶ files in use now
        ─▶ exactly the checked versions are deleted ─▶ files in use now are restored

    <runs about metadata>/pending/current.json    the pending list (`dredge.runs.pending`)

A row is about the current version of a file; its older versions are deleted with it. Each run first restores deleted
files in use by a new commit, and purges too old copies at its end. `docs/decisions/metadata.md` has the argument: a
commit writes its files before it refers to them, so they are other versions.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import pyarrow as pa
from msgspec import Struct

from dredge.errors import RefusedError, UnavailableError
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.metadata import deleting
from dredge.gc.metadata.config import DELETE, MetadataConfig
from dredge.gc.metadata.deleting import File, MetadataOutput, Taken
from dredge.gc.metadata.files import GARBAGE_METARANGES, Names, NamesReader, sort_files
from dredge.gc.namespaces import METADATA, refuse_sharing
from dredge.gc.pending.known import expected_list
from dredge.gc.run import METADATA_RUNS, open_state
from dredge.gc.witness.mark import sort_out
from dredge.gc.witness.owner import Site, check_before_deleting, compare_ids, keeps_id, read_owner
from dredge.gc.witness.record import Past
from dredge.lakefs import LakeFSClient
from dredge.lakefs.files.ranges import is_table_id
from dredge.runs.clock import Clock, utc_now
from dredge.runs.gate import Gate, watching
from dredge.runs.payload import StepSummary, to_json
from dredge.runs.pending.rows import Turn
from dredge.runs.pending.store import SmallList, found_rows
from dredge.runs.run import StepRecord
from dredge.storage import ObjectInfo, StorageOptions, open_versions, open_writer
from dredge.storage.model import MaySend
from dredge.undo.alarms import refuse_alarmed
from dredge.undo.side_run import LOOK_SECONDS, SideRun, side_run

HELD = "held"  # code of files held while a condition is open


def collect_metadata(
    config: MetadataConfig,
    holder: str | None = None,
    client: LakeFSClient | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
    access: KVAccess | None = None,
) -> StepSummary:
    """Find range and metarange files without a commit, restore files in use again, delete files after their wait.
    `holder`: of the lease; None is this run alone. `access`: lakeFS's key-value store; None reads the environment.
    Raises LeaseHeldError: another run works on the repository; ConfigError: the key-value store is not configured;
    RefusedError: the store is another installation's, or a newer version of Dredge left the pending list;
    UnavailableError: some files could not be deleted."""
    server, records = client or LakeFSClient.from_env(), access or KVAccess.from_env()
    name, namespace = config.repository, server.repository(config.repository).namespace
    state, place, asked = open_state(namespace, options), _runs_uri(namespace), to_json(config)
    with side_run(name, namespace, state, place, "metadata", asked, holder, options, clock) as run:
        names = NamesReader(server, name, namespace, records, run.reader)
        collection = _Collection(run, config, names)
        return run.step(MetadataOutput, collection.perform)


class _Collection(Struct):
    run: SideRun
    config: MetadataConfig
    names: NamesReader

    def perform(self, record: StepRecord) -> None:
        if self.config.metadata == DELETE and not self.config.dry_run:
            self._check_owner()
        # Files before commits: files of new commits are then in use by a read commit.
        files = self.run.reader.list_level(METADATA).objects
        found = self.names.read()
        self._put_back(record, found, {_name(info) for info in files})
        why_not = self._why_not(found)
        record.details["why_not"] = why_not
        named = found.files | self._about_to_be_named(files, found)
        garbage = self._garbage(files, named)
        chosen = self._chosen(garbage, self._advance_list(record, garbage, named, why_not))
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
            record.warn(f"no file of _lakefs/ is deleted: {why_not}")
        if chosen and not self.config.dry_run:
            self._delete_chosen(record, chosen)
        if not why_not:
            self._purge_copies(record, found)

    @property
    def _site(self) -> Site:
        plan = self.run.plan
        return Site(self.run.state, self.names.client, plan.repository, plan.run_id)

    @property
    def _cutoff(self) -> datetime:
        return self.run.plan.created_at - self.config.min_age

    def _about_to_be_named(self, files: Sequence[ObjectInfo], found: Names) -> set[str]:
        """Metaranges counted as active commits in collections of objects, and their ranges and those of young ones."""
        # A commit in progress may have written its metarange. Without the file, the content of a lost commit, or of one
        # waiting in a hook, would be unknown.
        plan, cutoff = self.run.plan, self._cutoff
        past = Past.read(self.run.state, plan.namespace)
        tables = {_name(info): info for info in files if is_table_id(_name(info))}
        known = past.known(found.files)
        since = past.since(plan.created_at, timedelta(days=self.config.keep_unnamed_days))
        lost = sort_out(self.run.reader, self.run.state, plan.namespace, tables, known, cutoff, since).lost
        young = {name for name, info in tables.items() if info.last_modified >= cutoff} - found.files
        return lost | self.names.read_tables(sorted(lost | young))

    def _garbage(self, files: Sequence[ObjectInfo], named: set[str]) -> list[File]:
        kinds = sort_files(self.run.reader, files, self._cutoff, named).garbage
        infos = {_name(info): info for info in files}
        unnamed = [(name, kind) for kind, these in kinds.items() for name in these]
        versions = deleting.read_versions(
            self.run.plan.namespace, [name for name, _ in unnamed], self._cutoff, self.run.options
        )
        return [
            File(name, kind, infos[name].size, ids, infos[name].last_modified)
            for (name, kind), ids in zip(unnamed, versions, strict=True)
        ]

    def _advance_list(
        self, record: StepRecord, garbage: Sequence[File], named: Collection[str], why_not: str
    ) -> set[str]:
        """Advance the pending list and write it for the next run; return the names of the files after their wait."""
        run, now = self.run, self.run.store_now()
        place = open_writer(_runs_uri(run.plan.namespace), run.options)
        created_at = self._site.client.repository(run.plan.repository).created_at
        pending = SmallList.read(place, expected_list(run.state, run.plan.namespace, created_at), now)
        if pending.problem:
            record.warn(f"the wait of all files starts again: {pending.problem}")
        turn = Turn(
            run_id=run.plan.run_id,
            marked_at=run.plan.created_at,
            now=now,
            cutoff=self._cutoff,
            min_age=self.config.min_age,
            grace=self.config.grace(keeps_id(self._site)),
            waits=self.config.waits,
            lists_all=True,
            state_of=None,
        )
        confirmed = pending.advance(_found(garbage, why_not), turn, named)
        record.details["pending"] = pending.figures
        if self._is_owner(record):
            now = run.store_now()
            record.attempt.check()
            run.lease.check(run.plan.lease, now)
            pending.write(place, run.folder.label, run.plan.run_id, run.plan.created_at, now)
        return confirmed

    def _is_owner(self, record: StepRecord) -> bool:
        """Whether later runs may use the mark: not that of another server or of an older database."""
        owner = read_owner(self.run.state)
        owns = owner is None or owner.includes(self._site.client.environment())
        if owns and compare_ids(self._site).passes:
            return True
        record.warn(
            "no pending list is written for later runs: another server owns the namespace, or lakeFS lacks the id of"
            " the last mark"
        )
        return False

    def _chosen(self, garbage: Sequence[File], confirmed: set[str]) -> list[File]:
        """Files after their wait, metaranges first, without the ranges of metaranges still waiting."""
        chosen = [file for file in garbage if file.name in confirmed]
        stays = [
            file.name for file in garbage if file.kind == GARBAGE_METARANGES and file.name not in confirmed
        ]
        needed = self.names.read_tables(stays)
        return [file for file in chosen if file.name not in needed]

    def _why_not(self, found: Names) -> str:
        if shared := self._shared():
            return shared
        if found.check.doubt:
            return f"the records of commits may be incomplete: {found.check.doubt}"
        if found.at_work:
            return f"{', '.join(found.at_work[:5])} are running: commits may soon use their files"
        past = Past.read(self.run.state, self.run.plan.namespace)
        if past.record is None:
            return "no run of lakefs_gc has recorded a complete mark here, so an older database would not be noticed"
        if lost := past.seen_metaranges - found.files:
            return (
                f"metarange {min(lost)} of a commit of the last mark of lakefs_gc has no commit now: lakeFS's database"
                " was restored from a backup, or is another one"
                f" (`dredge gc lost {self.run.plan.repository}` lists the lost commits)"
            )
        if found.missing:
            return f"metarange {found.missing[0]} of a commit is missing, so the ranges of the commit are unknown"
        versioning = open_versions(self.run.plan.namespace, self.run.options).versioning()
        if versioning != "enabled":
            return (
                f"the bucket keeps no versions (versioning is {versioning}), so a file rewritten by a commit right"
                " before its deletion would be lost"
            )
        return ""

    def _check_owner(self) -> None:
        check_before_deleting(self._site)
        refuse_alarmed(self.run.state, f"run {self.run.plan.run_id} deletes no metadata")

    def _shared(self) -> str:
        """The reason if other repositories may use the files, or "". Their commits are not in these records."""
        plan = self.run.plan
        namespaces = {item.name: item.namespace for item in self.names.client.repositories()}
        try:
            refuse_sharing(plan.repository, plan.namespace, namespaces)
        except RefusedError as error:
            return str(error)
        return ""

    def _delete_chosen(self, record: StepRecord, chosen: list[File]) -> None:
        plan, options = self.run.plan, self.run.options
        copied = deleting.copy_aside(plan.namespace, self.run.folder.uri, chosen, options)
        taken = [failed for failed in copied if failed is not None]
        ready = [file for file, failed in zip(chosen, copied, strict=True) if failed is None]
        found = self.names.read()
        why_not = self._why_not(found)
        if why_not:
            record.warn(f"no file of _lakefs/ is deleted: {why_not}")
        garbage = [file for file in ready if not why_not and file.name not in found.files]
        stays = [file for file in ready if why_not or file.name in found.files]
        taken += [Taken(file, deleting.KEPT, why_not or "in use now") for file in stays]
        with self._gate(record) as may_send:
            taken += deleting.delete_files(plan.namespace, garbage, may_send, options)
        self._write_outcomes(record, "ledger", taken)
        for outcome in (deleting.DELETED, deleting.KEPT, deleting.FAILED, deleting.UNSENT):
            these = [item for item in taken if item.outcome == outcome]
            record.counts[f"{outcome}_files"] = len(these)
            record.counts[f"{outcome}_bytes"] = sum(item.file.size for item in these)
        found = self.names.read()
        self._put_back(record, found, {_name(info) for info in self.run.reader.list_level(METADATA).objects})

    def _purge_copies(self, record: StepRecord, found: Names) -> None:
        """Delete copies too old to be restored, under the same conditions, except copies of files in use."""
        plan, options = self.run.plan, self.run.options
        taken: list[Taken] = []
        for copies in deleting.old_copies(
            plan.namespace, found.files, plan.created_at, self.config.keep_copies_days, options
        ):
            size_bytes = sum(file.size for file in copies.files)
            record.add(
                old_copies=len(copies.files), old_copies_bytes=size_bytes, kept_copies=len(copies.kept)
            )
            if not self.config.dry_run:
                with self._gate(record) as may_send:
                    taken += deleting.purge_copies(copies, may_send, options)
        if not self.config.dry_run and taken:
            record.add(purged_copies=sum(item.outcome == deleting.PURGED for item in taken))
            self._write_outcomes(record, "copies", taken)

    @contextmanager
    def _gate(self, record: StepRecord) -> Iterator[MaySend]:
        self._check_owner()
        watched = f"{MetadataOutput.STEP}/_watch/{record.attempt.number:03d}.json"
        with watching(self.run.folder, self.run.state, watched, lambda: None, LOOK_SECONDS):
            gate = Gate(self.run.folder, self.run.state, self.run.gate(watched))
            gate.is_open()  # raises the reason of a closed gate
            yield gate.lets_through

    def _write_outcomes(self, record: StepRecord, name: str, taken: Sequence[Taken]) -> None:
        """Write the outcomes of files or copies; remaining ones are the error of the step."""
        columns = {
            "name": [item.file.name for item in taken],
            "size": [item.file.size for item in taken],
            "outcome": [item.outcome for item in taken],
            "message": [item.message for item in taken],
        }
        record.parts.append(self.run.folder.write_table(MetadataOutput.STEP, 0, pa.table(columns), name))
        left = [item for item in taken if item.outcome in (deleting.FAILED, deleting.UNSENT)]
        if left:
            record.status = "partial"
            record.error = UnavailableError(
                f"{len(left):,} files of _lakefs/ or copies of them could not be deleted, such as {left[0].file.name}"
                f" ({left[0].message}). A later run tries again."
            )

    def _put_back(self, record: StepRecord, found: Names, there: set[str]) -> None:
        plan, options = self.run.plan, self.run.options
        for _ in range(2):  # a restored metarange may have missing ranges
            missing = found.files - there
            copies = deleting.find_copies(
                plan.namespace, missing, plan.created_at, self.config.keep_copies_days, options
            )
            if not copies:
                return
            if self.config.dry_run:
                record.add(would_come_back_files=len(copies))
                return
            back = deleting.put_back(plan.namespace, copies, options)
            record.add(put_back_files=len(back))
            record.warn(
                f"{len(back):,} deleted files of _lakefs/ are in use by a new commit and were restored, such as"
                f" {next(iter(back), 'none')}. With metadata = delete, do not run clients that refer to range files"
                " without writing them"
            )
            there |= copies.keys()
            more, found.missing = self.names.closure(found.missing)
            found.files |= more


def _found(garbage: Sequence[File], why_not: str) -> pa.Table:
    files = sorted((file for file in garbage if file.versions), key=lambda file: file.name)
    return found_rows(
        [file.name for file in files],
        size=[file.size for file in files],
        version_id=[file.versions[0] for file in files],
        last_modified=[file.last_modified for file in files],
        code=[HELD if why_not else None] * len(files),
        reason=[file.kind for file in files],
    )


def _runs_uri(namespace: str) -> str:
    return f"{namespace.rstrip('/')}/{METADATA_RUNS}"


def _name(info: ObjectInfo) -> str:
    return info.key.removeprefix(METADATA)
