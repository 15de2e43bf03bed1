"""`dredge inspect`: look into lakeFS's range and metarange files."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

from dredge.errors import ConfigError, NotFoundError
from dredge.lakefs.files.sstable import METARANGES, Table, read_table
from dredge.storage import open_reader


@click.group("inspect", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Look into lakeFS's range and metarange files. Read-only.

    FILE is a path, or a URI such as s3://bucket/repo/_lakefs/<id>; stores are reached by the usual AWS_…
    variables. A file is read whole and verified before anything is printed: a damaged file is not shown.
    """


@command.command("table")
@click.argument("uri", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a record and line.")
def table(uri: str, as_json: bool) -> None:
    """Show every record of a range, a metarange, or a table of a refs dump.

    A file named by an id must contain that table.

    With --json each line has key (null when it is not UTF-8), key_base64, key_hex, identity (hex),
    identity_base64, identity_hex, and

    \b
    of a range      address, address_type (0 old, 1 relative, 2 full), size, etag, last_modified (RFC 3339),
                    last_modified_unix ([seconds, nanoseconds]), metadata, content_type
    of a metarange  range_id, min_key, min_key_base64, max_key, max_key_base64, estimated_size, count
    of a dump       entity (commit, branch, tag), and of its ranges value_base64, the record as it stands

    \b
    Examples:
      dredge inspect table ./range-file --json

    \b
    Exit codes: 0 shown · 2 bad input · 4 the store is not available · 5 damaged, or no such table
                6 no such file
    """
    from dredge.lakefs.files.ranges import is_table_id

    name = uri.rsplit("/", 1)[-1]
    found = read_table(_read(uri), uri, expected_id=name if is_table_id(name) else None)
    rows = list(_rows(found, uri))
    if as_json:
        _print(json.dumps(row) for row in rows)
    else:
        _print([_headline(found), *_plain(rows)])


@command.command("addresses")
@click.argument("uri", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="One JSON object with address and address_type a line.")
def addresses(uri: str, as_json: bool) -> None:
    """Show the physical address of every entry of a range, as a JSON string a line.

    Reads with the column reader, millions of rows a second. Metaranges and refs dumps are refused.

    \b
    Examples:
      dredge inspect addresses ./range-file

    \b
    Exit codes: 0 shown · 2 bad input · 4 the store is not available · 5 damaged, or no range
                6 no such file
    """
    from dredge.lakefs.files.sstable.columns import read_addresses

    rows = read_addresses(_read(uri), uri)
    if as_json:
        _print(json.dumps(row) for row in rows.to_pylist())
    else:
        _print(json.dumps(address) for address in rows["address"].to_pylist())


def _read(uri: str) -> bytes:
    if sys.stderr.isatty():
        click.echo(f"reading {uri}", err=True)
    if "://" in uri:
        folder, _, name = uri.rpartition("/")
        if not name or folder.endswith(":/"):
            raise ConfigError(f"{uri!r} names no file")
        return open_reader(folder).get(name)
    try:
        with open(uri, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise NotFoundError(f"{uri}: no such file") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{uri}: {error}") from None


def _rows(found: Table, uri: str) -> Iterator[dict[str, Any]]:
    from dredge.lakefs.files.entries import Value
    from dredge.lakefs.files.ranges import RangeInfo

    describe: Callable[[bytes, bytes, Value, str], dict[str, Any]] = _entry
    if found.kind == METARANGES:

        def describe(key: bytes, raw: bytes, value: Value, name: str) -> dict[str, Any]:
            return _range(RangeInfo.decode(key, raw, name))

    elif found.entity is not None:

        def describe(key: bytes, raw: bytes, value: Value, name: str) -> dict[str, Any]:
            return {"value_base64": _base64(value.data)}

    entity = {} if found.entity is None else {"entity": found.entity}
    for number, (key, raw) in enumerate(found.records):
        name = f"{uri}: record {number}"
        value = Value.decode(raw, name)
        identity = value.identity.hex()
        yield {
            **_bytes("key", key),
            "key_hex": key.hex(),
            "identity": identity,
            "identity_base64": _base64(value.identity),
            "identity_hex": identity,
            **entity,
            **describe(key, raw, value, name),
        }


def _entry(key: bytes, raw: bytes, value: Any, name: str) -> dict[str, Any]:
    from dredge.lakefs.files import messages
    from dredge.lakefs.files.sstable.few import decode_entry

    entry = decode_entry(value, name)
    stamp = entry.last_modified
    return {
        "address": entry.address,
        "address_type": int(entry.address_type),
        "size": entry.size,
        "etag": entry.e_tag,
        "last_modified": f"{messages.from_timestamp(stamp):%Y-%m-%dT%H:%M:%S}.{stamp.nanos:09}Z",
        "last_modified_unix": [stamp.seconds, stamp.nanos],
        "metadata": dict(entry.metadata),
        "content_type": entry.content_type,
    }


def _range(info: Any) -> dict[str, Any]:
    return {
        "range_id": info.id,
        **_bytes("min_key", info.min_key),
        **_bytes("max_key", info.max_key),
        "estimated_size": info.estimated_size,
        "count": info.count,
    }


def _bytes(name: str, data: bytes) -> dict[str, str | None]:
    try:
        text: str | None = data.decode()
    except UnicodeDecodeError:
        text = None
    return {name: text, f"{name}_base64": _base64(data)}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _headline(found: Table) -> str:
    dump = f" of a refs dump ({found.entity})" if found.entity is not None else ""
    return f"# {found.kind.removesuffix('s')}{dump}, {len(found.records)} records, id {found.id}"


def _plain(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    kinds = {0: "old", 1: "relative", 2: "full"}
    for row in rows:
        key = json.dumps(row["key"]) if row["key"] is not None else f"base64:{row['key_base64']}"
        if "range_id" in row:
            yield f"{row['range_id']}  {row['count']:>8} records  up to {key}"
        elif "address" in row:
            kind = kinds[row["address_type"]]
            when = row["last_modified"][:19]
            yield f"{when}  {row['size']:>14}  {key}  {kind} {json.dumps(row['address'])}  {row['etag']}"
        else:
            yield f"{key}  {row['entity']} {row['value_base64']}"


def _print(lines: Iterable[str]) -> None:
    """Print all lines; after an error none."""
    text = "".join(f"{line}\n" for line in lines)
    if text:
        click.echo(text, nl=False)
