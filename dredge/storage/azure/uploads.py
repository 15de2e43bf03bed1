"""Blobs of blocks, for streams of unknown length.

Staging a block begins a blob, and committing a list of blocks ends all others of that name. Blocks are in no listing,
and a blob is as old as its commit. The service drops staged blocks after a week.

Source: Blob service REST API, Put Block, Put Block List.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from itertools import chain
from typing import Any

from dredge.storage.remote import split_parts


def block_id(upload_id: str, number: int) -> str:
    """Id of a block; all ids of a blob have one length."""
    return f"{upload_id}{number:05d}"


def new_upload_id() -> str:
    """Id of an upload."""
    return secrets.token_hex(8)


def send_stream(client: Any, chunks: Iterable[bytes], if_absent: bool) -> None:
    """Write a blob of unknown length with one block in memory; after an error the blob is unchanged."""
    from azure.storage.blob import BlobBlock

    parts = split_parts(chunks)
    first = next(parts, b"")
    second = next(parts, None)
    if second is None:
        client.upload_blob(first, length=len(first), overwrite=not if_absent)
        return
    upload_id, staged = new_upload_id(), list[Any]()
    for number, part in enumerate(chain([first, second], parts), 1):
        name = block_id(upload_id, number)
        client.stage_block(name, part, length=len(part))
        staged.append(BlobBlock(block_id=name))
    client.commit_block_list(staged, **only_if_absent(if_absent))


def only_if_absent(wanted: bool) -> dict[str, Any]:
    """Arguments of the SDK for a write to a free name."""
    from azure.core import MatchConditions

    return {"match_condition": MatchConditions.IfMissing} if wanted else {}
