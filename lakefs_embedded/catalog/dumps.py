"""API calls to dump refs to the storage namespace, and to restore them into a bare repository.

A dump reads branches and tags before commits. Commits are only ever added, so it contains every head. A restore
checks the whole dump first, then writes commits, tags and branches, in this order; it may be repeated. The tables are
written byte for byte as by a server:

    _lakefs/<id>                   ranges and metaranges with the properties `entity`, `schema_name`,
                                   `schema_definition`; stored beside the tables of objects
    _lakefs/refs_manifest.json     {"branches_meta_range_id", "commits_meta_range_id", "tags_meta_range_id"}

    key: branch name, tag name, or commit id · identity: the commit id, as text · data: the record

A branch is dumped as its name and head, without staged changes or the hidden flag.

Source: lakeFS pkg/api/controller.go (DumpRefs, RestoreRefs, DumpSubmit, RestoreSubmit; behaviour only),
pkg/graveler/serde.go, graveler.go; files of a real server in tests/fixtures/lakefs/tables.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from dredge.errors import FormatError, NotFoundError
from dredge.lakefs.files import messages
from dredge.lakefs.files.ranges import RangeInfo, Value, is_table_id
from dredge.lakefs.files.records import Branch, Repository
from dredge.lakefs.files.sstable import METARANGES, RANGES, read_table
from dredge.storage import ObjectWriter
from lakefs_embedded.catalog.model import Namespaces, Refs
from lakefs_embedded.catalog.tasks import Status, Tasks
from lakefs_embedded.committed.tables import TableWriter, WrittenTable, write_table
from lakefs_embedded.committed.writing import SplitRule
from lakefs_embedded.errors import BadRequestError, BranchExistsError, MissingError, TagExistsError
from lakefs_embedded.kv import PredicateFailedError, Store
from lakefs_embedded.refs.commits import expected_id
from lakefs_embedded.refs.records import Commit, Tag, commit_key, new_staging_token

DUMP_PREFIX, RESTORE_PREFIX = "DR", "RR"


class NotBareError(BadRequestError):
    """Refs cannot be restored into a repository with refs."""

    default = "refs can only be restored into a bare repository: invalid value"


class InvalidDumpError(BadRequestError):
    """The dump cannot be restored."""

    default = "invalid refs dump"


@dataclass(frozen=True, slots=True)
class RefsTask:
    """The progress of an asynchronous dump or restore: `done` also after an error; `updated` is aware UTC."""

    id: str
    done: bool
    updated: datetime
    refs: RefsDump | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class _Refs:
    """The content of a dump; commit records by commit id."""

    commits: dict[str, bytes]
    tags: list[Tag]
    branches: list[Branch]


class DumpService:
    """Dumps and restores refs, at once or as tasks."""

    def __init__(self, kv: Store, refs: Refs, namespaces: Namespaces, tasks: Tasks, rule: SplitRule) -> None:
        self._kv = kv
        self._refs = refs
        self._namespaces = namespaces
        self._tasks = tasks
        self._rule = rule

    def dump_refs(self, repository: str) -> RefsDump:
        """Write all commits, branches and tags to the namespace, then a manifest."""
        return self._dump(self._refs.repositories.get(repository))

    def restore_refs(self, repository: str, dump: RefsDump, *, force: bool = False) -> None:
        """Restore the commits, branches and tags of a dump into a bare repository.

        Raises InvalidDumpError when it is damaged or a ref has no commit, MissingError when a file is missing.
        """
        self._restore(self._refs.repositories.writable(repository, force), dump)

    def dump_submit(self, repository: str) -> str:
        """Begin a dump; returns the task's id."""
        found = self._refs.repositories.get(repository)
        status = messages.RepositoryDumpStatus()

        def work() -> None:
            made = self._dump(found)
            status.info.commits_meta_range_id = made.commits
            status.info.tags_meta_range_id = made.tags
            status.info.branches_meta_range_id = made.branches

        return self._tasks.submit(found, status, DUMP_PREFIX, "dump_refs", work)

    def dump_status(self, repository: str, task_id: str) -> RefsTask:
        """The progress of a dump."""
        found = self._refs.repositories.get(repository)
        status = self._tasks.get(found, task_id, DUMP_PREFIX, messages.RepositoryDumpStatus)
        answer = _refs_task(status)
        if not answer.done or answer.error is not None:
            return answer
        info = status.info
        refs = RefsDump(info.commits_meta_range_id, info.tags_meta_range_id, info.branches_meta_range_id)
        return replace(answer, refs=refs)

    def restore_submit(self, repository: str, dump: RefsDump, *, force: bool = False) -> str:
        """Begin a restore; returns the task's id."""
        found = self._refs.repositories.writable(repository, force)
        status = messages.RepositoryRestoreStatus()
        return self._tasks.submit(
            found, status, RESTORE_PREFIX, "restore_refs", lambda: self._restore(found, dump)
        )

    def restore_status(self, repository: str, task_id: str) -> RefsTask:
        """The progress of a restore."""
        found = self._refs.repositories.get(repository)
        return _refs_task(self._tasks.get(found, task_id, RESTORE_PREFIX, messages.RepositoryRestoreStatus))

    def _dump(self, found: Repository) -> RefsDump:
        files = self._dump_files(found)
        branches = files.write("branch", map(branch_record, self._refs.branches.scan(found)))
        tags = files.write("tag", map(tag_record, self._refs.tags.scan(found)))
        commits = files.write("commit", self._commit_rows(found))
        dump = RefsDump(commits, tags, branches)
        files.write_manifest(dump)
        return dump

    def _restore(self, found: Repository, dump: RefsDump) -> None:
        refs = self._read_dump(found, dump)
        self._require_room(found, refs)
        for commit_id, raw in refs.commits.items():
            with suppress(PredicateFailedError):
                self._kv.set_if(found.partition, commit_key(commit_id), raw, None)
        for tag in refs.tags:
            with suppress(TagExistsError):
                self._refs.tags.create(found, tag)
        for branch in refs.branches:
            with suppress(BranchExistsError):
                self._refs.branches.create(found, branch)
        self._require_room(found, refs)  # another dump may have been restored meanwhile

    def _read_dump(self, found: Repository, dump: RefsDump) -> _Refs:
        files = self._dump_files(found)
        try:
            commits = {_commit_id(raw): raw for _, raw in files.read("commit", dump.commits)}
            tags = [Tag.decode(raw) for _, raw in files.read("tag", dump.tags)]
            heads = [Branch.decode(raw) for _, raw in files.read("branch", dump.branches)]
        except FormatError as error:
            raise InvalidDumpError(f"invalid refs dump: {error}") from None
        except NotFoundError as error:
            raise MissingError(f"{error}: not found") from None
        branches = [replace(each, staging_token=new_staging_token(found.name, each.name)) for each in heads]
        _check_heads(commits, tags, branches)
        return _Refs(commits, tags, branches)

    def _require_room(self, found: Repository, refs: _Refs) -> None:
        wanted_tags = {each.name: each.commit_id for each in refs.tags}
        wanted_branches = {each.name: each.commit_id for each in refs.branches}
        if (
            any(each.id not in refs.commits for each in self._refs.commits.all(found))
            or any(wanted_tags.get(each.name) != each.commit_id for each in self._refs.tags.scan(found))
            or any(
                wanted_branches.get(each.name) != each.commit_id for each in self._refs.branches.scan(found)
            )
        ):
            raise NotBareError

    def _commit_rows(self, found: Repository) -> Iterator[tuple[bytes, Value]]:
        prefix = commit_key("")
        for row in self._kv.scan(found.partition, prefix):
            if not row.key.startswith(prefix):
                return
            yield commit_record(row.key.removeprefix(prefix).decode(), row.value)

    def _dump_files(self, found: Repository) -> DumpFiles:
        return DumpFiles(self._namespaces.of(found).objects, self._rule)


def _refs_task(status: Status) -> RefsTask:
    task = status.task
    return RefsTask(
        task.id, task.done, messages.from_timestamp(task.updated_at), error=task.error_msg or None
    )


def _commit_id(raw: bytes) -> str:
    commit = Commit.decode(raw)
    expected = expected_id(commit)
    if commit.id != expected:
        raise InvalidDumpError(f"invalid refs dump: commit {commit.id} is not the hash {expected}")
    return commit.id


def _check_heads(commits: Container[str], tags: Iterable[Tag], branches: Iterable[Branch]) -> None:
    heads = [(tag.name, tag.commit_id) for tag in tags]
    heads += [(branch.name, branch.commit_id) for branch in branches]
    for name, commit_id in heads:
        if commit_id not in commits:  # a real server crashes on such a branch (L41)
            raise InvalidDumpError(f"invalid refs dump: {name} names the unknown commit {commit_id}")


MANIFEST_KEY = "_lakefs/refs_manifest.json"
_FOLDER = "_lakefs/"
_PACKAGE = "io.treeverse.lakefs.graveler"
_KINDS: Mapping[str, type[Message]] = {
    "commit": messages.CommitData,
    "branch": messages.BranchData,
    "tag": messages.TagData,
}
_TYPES = {
    FieldDescriptor.TYPE_STRING: "TYPE_STRING",
    FieldDescriptor.TYPE_BOOL: "TYPE_BOOL",
    FieldDescriptor.TYPE_INT32: "TYPE_INT32",
    FieldDescriptor.TYPE_MESSAGE: "TYPE_MESSAGE",
}


@dataclass(frozen=True, slots=True)
class RefsDump:
    """The three metaranges of a dump, by id."""

    commits: str
    tags: str
    branches: str

    def manifest(self) -> bytes:
        """The manifest file."""
        members = {
            "branches_meta_range_id": self.branches,
            "commits_meta_range_id": self.commits,
            "tags_meta_range_id": self.tags,
        }
        return json.dumps(members, indent=2).encode()


def commit_record(commit_id: str, raw: bytes) -> tuple[bytes, Value]:
    """A commit as a record of a dump: exactly as it is stored, nanoseconds included."""
    return commit_id.encode(), Value(commit_id.encode(), raw)


def branch_record(branch: Branch) -> tuple[bytes, Value]:
    """A branch as a record of a dump."""
    data = messages.BranchData(id=branch.name, commit_id=branch.commit_id)
    return branch.name.encode(), Value(branch.commit_id.encode(), messages.encode(data))


def tag_record(tag: Tag) -> tuple[bytes, Value]:
    """A tag as a record of a dump."""
    return tag.name.encode(), Value(tag.commit_id.encode(), tag.encode())


class DumpFiles:
    """Reads and writes the tables of dumps in one storage namespace."""

    def __init__(self, objects: ObjectWriter, rule: SplitRule) -> None:
        self._objects = objects
        self._rule = rule

    def write(self, entity: str, records: Iterable[tuple[bytes, Value]]) -> str:
        """Write one kind of refs (`commit`, `branch`, `tag`) in key order, its metarange last; returns its id."""
        properties = _properties(entity)
        ranges: list[RangeInfo] = []
        writer: TableWriter | None = None
        for key, value in records:
            writer = writer or TableWriter(RANGES, properties)
            writer.add(key, value.encode())
            if self._rule.closes_after(key, writer.estimated_size()):
                ranges.append(self._put(writer.finish()))
                writer = None
        if writer is not None:
            ranges.append(self._put(writer.finish()))
        rows = ((each.max_key, each.value().encode()) for each in ranges)
        return self._put(write_table(rows, METARANGES, properties)).id

    def write_manifest(self, dump: RefsDump) -> None:
        """Write the manifest, which points to the newest dump."""
        self._objects.put(MANIFEST_KEY, dump.manifest())

    def read(self, entity: str, metarange_id: str) -> Iterator[tuple[bytes, bytes]]:
        """Keys and records of all refs of one kind, verified. Raises FormatError if damaged or incomplete."""
        for key, raw in self._records(entity, METARANGES, metarange_id, None):
            name = f"metarange {metarange_id} of a refs dump"
            info = RangeInfo.decode(key, raw, name)
            for path, value in self._records(entity, RANGES, info.id, info.count):
                yield path, Value.decode(value, f"{path!r} in {name}").data

    def _records(
        self, entity: str, kind: str, table_id: str, count: int | None
    ) -> Iterator[tuple[bytes, bytes]]:
        if not is_table_id(table_id):
            raise FormatError(f"{table_id!r} is not the id of a range or metarange")
        name = f"{self._objects.uri}/{_FOLDER}{table_id}"
        try:
            data = self._objects.get(_FOLDER + table_id)
        except NotFoundError:
            raise NotFoundError(f"{name} is missing, so the refs dump is incomplete") from None
        table = read_table(data, name, expected_id=table_id, expected_count=count)
        if table.kind != kind or table.entity != entity:
            raise FormatError(
                f"{name} holds {table.entity or 'objects'} ({table.kind}), not {entity} ({kind})"
            )
        return iter([(record.key, record.value) for record in table.records])

    def _put(self, table: WrittenTable) -> RangeInfo:
        self._objects.put(_FOLDER + table.id, table.data)
        return table.info


def _properties(entity: str) -> dict[str, str]:
    kind: Any = _KINDS[entity].DESCRIPTOR
    return {
        "entity": entity,
        "schema_name": f"{_PACKAGE}.{kind.name}",
        "schema_definition": json.dumps(_schema(kind), separators=(",", ":")),
    }


def _schema(kind: Descriptor) -> dict[str, Any]:
    shape: dict[str, Any] = {"name": kind.name, "field": [_field(field, kind) for field in kind.fields]}
    if kind.nested_types:
        shape["nestedType"] = [_schema(nested) for nested in kind.nested_types]
    if kind.GetOptions().map_entry:
        shape["options"] = {"mapEntry": True}
    return shape


def _field(field: FieldDescriptor, owner: Descriptor) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "name": field.name,
        "number": field.number,
        "label": "LABEL_REPEATED" if field.is_repeated else "LABEL_OPTIONAL",
        "type": _TYPES[field.type],
    }
    if field.message_type is not None:
        own = field.message_type.containing_type is owner
        name = f"{_PACKAGE}.{owner.name}.{field.message_type.name}" if own else field.message_type.full_name
        shape["typeName"] = f".{name}"
    return {**shape, "jsonName": field.json_name}
