"""`dredge kv`: look into lakeFS's key-value store, read-only, every value decoded by its message type."""

from __future__ import annotations

import base64
import json
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from dredge.errors import FormatError, NotFoundError
from dredge.kv.opening import open_row_reader
from dredge.kv.rows import name_of, show
from dredge.trash.names import CREDENTIALS

if TYPE_CHECKING:
    from google.protobuf.message import Message

HIDDEN = "hidden (--show-secrets shows it)"
_CONTEXT = {"help_option_names": ["-h", "--help"]}

_url = click.argument("url")
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
_secrets = click.option("--show-secrets", is_flag=True, help="Show values of users, keys and policies too.")
_raw = click.option("--raw", is_flag=True, help="Base64 of the stored bytes instead of the decoded value.")


@click.group("kv", context_settings=_CONTEXT)
def command() -> None:
    """Look into lakeFS's key-value store. Read-only.

    URL is postgresql://user@host/database, dynamodb://TABLE?region=… or sqlite:///abs/file.db. Leave passwords out
    of it: PGPASSWORD, ~/.pgpass and AWS's own variables and profiles work.

    Names of partitions and keys are text; other bytes than UTF-8 are written and shown as \\xNN.

    \b
    Exit codes: 0 done, 2 bad input or no such store, 4 the store does not answer, 6 no such key.
    """


@command.command("ls", context_settings=_CONTEXT)
@_url
@_json
def ls_command(url: str, as_json: bool) -> None:
    """List the partitions and their kinds. DynamoDB reads the whole table.

    \b
    Examples:
      dredge kv ls sqlite:///srv/lake/kv.db
    """
    with closing(open_row_reader(url)) as store, store.view() as view:
        for partition in view.partitions():
            kind = kind_of(partition)
            if as_json:
                click.echo(json.dumps({"partition": show(partition), "kind": kind}))
            else:
                click.echo(f"{kind:<12}  {show(partition)}")


@command.command("scan", context_settings=_CONTEXT)
@_url
@click.argument("partition")
@click.option("--prefix", default="", help="Only keys that begin so.")
@click.option("--start", default="", help="Only this key and those after it.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many rows.")
@_raw
@_secrets
@_json
def scan_command(
    url: str,
    partition: str,
    prefix: str,
    start: str,
    limit: int | None,
    raw: bool,
    show_secrets: bool,
    as_json: bool,
) -> None:
    """Show the rows of a partition in key order.

    \b
    Examples:
      dredge kv scan postgresql://lakefs@db/lakefs graveler --json
    """
    name, begin = name_of(partition), name_of(prefix)
    first = max(begin, name_of(start))
    with closing(open_row_reader(url)) as store, store.view() as view:
        for entry in islice(view.scan(name, first), limit):
            if not entry.key.startswith(begin):
                break
            _print_row(name, entry.key, entry.value, raw, show_secrets, as_json)


@command.command("get", context_settings=_CONTEXT)
@_url
@click.argument("partition")
@click.argument("key")
@_raw
@_secrets
@_json
def get_command(url: str, partition: str, key: str, raw: bool, show_secrets: bool, as_json: bool) -> None:
    """Show a row.

    \b
    Examples:
      dredge kv get postgresql://lakefs@db/lakefs graveler repos/shop
    """
    name, wanted = name_of(partition), name_of(key)
    with closing(open_row_reader(url)) as store, store.view() as view:
        entry = next(iter(view.scan(name, wanted)), None)
    if entry is None or entry.key != wanted:
        raise NotFoundError(f"partition {partition!r} has no key {key!r}")
    _print_row(name, wanted, entry.value, raw, show_secrets, as_json)


def kind_of(partition: bytes) -> str:
    """Return the kind of a partition from its name."""
    from dredge.trash import names

    if names.parse_instance(partition):
        return "repository"
    if names.is_token(partition):
        return "staging"
    known = {names.REPOSITORIES, *names.SMALL, *names.OTHERS}
    return "system" if partition in known else "unknown"


def message_of(partition: bytes, key: bytes) -> type[Message] | None:
    """Return the message class of a value; None for text and unknown values."""
    from dredge.lakefs.files import messages
    from dredge.lakefs.files.messages import auth_pb2
    from dredge.trash import names

    kind = kind_of(partition)
    if kind == "staging":
        return messages.StagedEntryData
    family = names.first_part(key)
    if kind == "repository":
        return {
            "branches": messages.BranchData,
            "commits": messages.CommitData,
            "tags": messages.TagData,
            "settings": messages.BranchProtectionRules,
            "imports": messages.ImportStatusData,
            "tasks": messages.GarbageCollectionPrepareStatus,
            "repo-metadata": messages.RepoMetadata,
            "pulls": messages.PullRequestData,
            "copies": messages.Entry,
        }.get(family)
    if partition == names.ACTIONS:
        part = key.split(b"/")[2:3]
        runs: dict[bytes, type[Message]] = {
            b"runs": messages.RunResultData,
            b"tasks": messages.TaskResultData,
        }
        return runs.get(part[0], messages.SecondaryIndex) if part else None
    if partition in names.CREDENTIALS:
        accounts: dict[str, type[Message]] = {
            "users": auth_pb2.UserData,
            "groups": auth_pb2.GroupData,
            "policies": auth_pb2.PolicyData,
            "uCredentials": auth_pb2.CredentialData,
            "gUsers": messages.SecondaryIndex,
            "uPolicies": messages.SecondaryIndex,
            "gPolicies": messages.SecondaryIndex,
        }
        return accounts.get(family)
    system: dict[bytes, type[Message]] = {
        names.REPOSITORIES: messages.RepositoryData,
        names.DELETED: messages.RepositoryData,
        names.PULLS: messages.SecondaryIndex,
        names.INSTANCES: messages.InstanceHeartbeat,
        names.OWNERS: messages.BranchOwnership,
        names.MULTIPARTS: messages.UploadData,
    }
    return system.get(partition)


def decoded(partition: bytes, key: bytes, value: bytes) -> tuple[str, Any]:
    """Decode a value.

    Returns:
        The name of its type, and the value as plain data: a message's fields, text, or base64.
    """
    from google.protobuf.json_format import MessageToDict

    from dredge.lakefs.files import messages

    kind = message_of(partition, key)
    if kind is not None:
        try:
            message = messages.decode(kind, value, "value")
            fields: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
            if isinstance(message, messages.StagedEntryData):
                fields = _staged(message)
        except (FormatError, ValueError):
            return f"damaged {kind.DESCRIPTOR.name}", base64.b64encode(value).decode()
        return kind.DESCRIPTOR.name, fields
    try:
        return "text", value.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes", base64.b64encode(value).decode()


def _staged(message: Any) -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict

    from dredge.lakefs.files import messages

    if not message.identity:
        return {"key": show(message.key), "tombstone": True}
    entry = messages.decode(messages.Entry, message.data, "entry")
    return {
        "key": show(message.key),
        "identity": message.identity.hex(),
        "entry": MessageToDict(entry, preserving_proto_field_name=True),
    }


def _print_row(
    partition: bytes, key: bytes, value: bytes, raw: bool, show_secrets: bool, as_json: bool
) -> None:
    data: Any
    if partition in CREDENTIALS and not show_secrets:
        kind, data = "secret", HIDDEN
    elif raw:
        kind, data = "base64", base64.b64encode(value).decode()
    else:
        kind, data = decoded(partition, key, value)
    if as_json:
        line = {
            "partition": show(partition),
            "key": show(key),
            "type": kind,
            "size_bytes": len(value),
            "value": data,
        }
        click.echo(json.dumps(line, ensure_ascii=False))
        return
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    click.echo(f"{show(key)}  [{kind}, {len(value)} B]  {text}")
