"""Dumps of refs: commits, branches and tags as tables, byte for byte as a server writes them.

    _lakefs/<id>                   ranges and metaranges with the properties `entity`, `schema_name`,
                                   `schema_definition`; stored beside the tables of objects
    _lakefs/refs_manifest.json     {"branches_meta_range_id", "commits_meta_range_id", "tags_meta_range_id"}

    key: branch name, tag name, or commit id · identity: the commit id, as text · data: the record

A branch is dumped as its name and head, without staged changes or the hidden flag.

Source: lakeFS pkg/graveler/serde.go, graveler.go; files of a real server in tests/fixtures/lakefs/tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from dredge.errors import FormatError, NotFoundError
from dredge.lakefs.files import messages
from dredge.lakefs.files.ranges import RangeInfo, Value, is_table_id
from dredge.lakefs.files.records import Branch
from dredge.lakefs.files.sstable import METARANGES, RANGES, read_table
from dredge.storage import ObjectWriter
from lakefs_embedded.committed.tables import TableWriter, WrittenTable, write_table
from lakefs_embedded.committed.writing import SplitRule
from lakefs_embedded.refs.records import Tag

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
