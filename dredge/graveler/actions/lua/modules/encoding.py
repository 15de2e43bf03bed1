"""Modules on encodings: encoding/json, yaml, base64, hex, z85enc, parquet.

Source: lakeFS pkg/actions/lua/encoding.
"""

from __future__ import annotations

import base64
import io
import json
import uuid
from typing import Any

import yaml

from dredge.graveler.actions.lua.library import Library, Returns, function
from dredge.graveler.actions.text import to_json


def _json(value: Any, options: dict[str, Any] | None) -> str:
    if options is None or not (options.get("indent") or options.get("prefix")):
        return to_json(value, sort_keys=True) + "\n"
    prefix = str(options.get("prefix", ""))
    text = to_json(value, sort_keys=True, indent=str(options.get("indent", "")))
    return text.replace("\n", f"\n{prefix}") + "\n"


class _Dumper(yaml.SafeDumper):
    """Lists below a key are indented, as Go's encoder does."""

    def increase_indent(self, flow: bool = False, *_: bool, **__: bool) -> None:
        super().increase_indent(flow, indentless=False)


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, indent=4, default_flow_style=False, allow_unicode=True)


_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = bytes.maketrans(_Z85, _B85)  # the two differ only in their digits


def _z85(text: bytes) -> Returns:
    """The last 20 characters are a UUID, anything before them a prefix."""
    prefix, encoded = text[:-20], text[-20:]
    return Returns((str(uuid.UUID(bytes=base64.b85decode(encoded.translate(_TO_B85)))), prefix))


def _url_decode(text: bytes) -> bytes:
    return base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _parquet_schema(content: bytes) -> list[dict[str, str]]:
    """Names and physical types of the columns.

    Raises:
        ValueError: there are columns inside columns, whose outer ones pyarrow does not list.
    """
    import pyarrow.parquet

    schema = pyarrow.parquet.ParquetFile(io.BytesIO(content)).schema
    columns = [schema.column(number) for number in range(len(schema))]
    nested = next((each.path for each in columns if each.path != each.name), None)
    if nested is not None:
        raise ValueError(f"column {nested}: nested columns are not supported by this embedded server")
    return [{"name": each.name, "type": each.physical_type} for each in columns]


MODULES: dict[str, Library] = {
    "encoding/json": {"marshal": function("o o", _json), "unmarshal": function("s", json.loads)},
    "encoding/yaml": {"marshal": function("o", _yaml), "unmarshal": function("s", yaml.safe_load)},
    "encoding/base64": {
        "encode": function("s", base64.b64encode),
        "decode": function("s", lambda text: base64.b64decode(text, validate=True)),
        "url_encode": function("s", lambda data: base64.urlsafe_b64encode(data).rstrip(b"=")),
        "url_decode": function("s", _url_decode),
    },
    "encoding/hex": {
        "encode": function("s", bytes.hex),
        "decode": function("u", bytes.fromhex),
    },
    "encoding/z85enc": {"decode_uuid": function("s", _z85)},
    "encoding/parquet": {"get_schema": function("s", _parquet_schema)},
}
