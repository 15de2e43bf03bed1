"""Blobs of blocks: streams of unknown length, and uploads in parts.

Azure has no request that begins an upload: staging a block begins one, and committing a list of blocks ends all others
of that name. So upload id, part number, time and hash are in the ids of the blocks; block 0 begins an upload, block
99999 aborts it. The service drops staged blocks after a week. Blocks are in no listing, and a blob is as old as its
commit.

    <16 hex: upload> <5 digits: part> <11 hex: milliseconds> <32 hex: MD5>      64 bytes, the maximum

Source: Blob service REST API, Put Block, Put Block List, Get Block List.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from dredge.errors import ConfigError, NotFoundError
from dredge.storage.azure.errors import translated
from dredge.storage.keys import is_exact
from dredge.storage.model import ObjectInfo
from dredge.storage.remote import split_parts
from dredge.storage.uploads import Completed, Part, Upload, check_part_number, choose_parts, combined_etag

BEGUN, GIVEN_UP = 0, 99_999
_NOTHING = hashlib.md5(b"", usedforsecurity=False).hexdigest()
_SPOOL_BYTES = 8 << 20
_ID = re.compile(r"([0-9a-f]{16})([0-9]{5})([0-9a-f]{11})([0-9a-f]{32})")


@dataclass(frozen=True, slots=True)
class Block:
    """A staged block."""

    block_id: str
    upload_id: str
    number: int
    millis: int
    md5: str
    size: int


def block_id(upload_id: str, number: int, md5: str) -> str:
    """Id of a block."""
    return f"{upload_id}{number:05d}{time.time_ns() // 1_000_000:011x}{md5}"


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
        name = block_id(upload_id, number, hashlib.md5(part, usedforsecurity=False).hexdigest())
        client.stage_block(name, part, length=len(part))
        staged.append(BlobBlock(block_id=name))
    client.commit_block_list(staged, **only_if_absent(if_absent))


def only_if_absent(wanted: bool) -> dict[str, Any]:
    """Arguments of the SDK for a write to a free name."""
    from azure.core import MatchConditions

    return {"match_condition": MatchConditions.IfMissing} if wanted else {}


class BlockUploads:
    """See `dredge.storage.uploads.Uploads`. Completing an upload of a key ends the others of that key."""

    def __init__(
        self, uri: str, root: str, container: Callable[[], Any], stat: Callable[[str], ObjectInfo]
    ) -> None:
        self._uri = uri
        self._root = root
        self._container = container
        self._stat = stat

    def begin(self, key: str) -> str:
        """See `Uploads.begin`."""
        if not key or not is_exact(self._root + key):
            raise ConfigError(f"{key!r} cannot be addressed exactly in {self._uri}; nothing was begun")
        upload_id = new_upload_id()
        self._mark(key, upload_id, BEGUN)
        return upload_id

    def put_part(self, key: str, upload_id: str, number: int, chunks: Iterable[bytes]) -> Part:
        """Write a part; see `Uploads.put_part`."""
        check_part_number(number)
        self._blocks_of(key, upload_id)
        md5 = hashlib.md5(usedforsecurity=False)
        with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as spool:
            for chunk in chunks:
                md5.update(chunk)
                spool.write(chunk)
            size = spool.tell()
            spool.seek(0)
            name = block_id(upload_id, number, md5.hexdigest())
            with self._about(key):
                # A block has at least one byte; the block of an empty part is not committed.
                self._client(key).stage_block(name, spool if size else b".", length=size or 1)
        return _part(_read_id(name, size))

    def parts(self, key: str, upload_id: str) -> list[Part]:
        """See `Uploads.parts`."""
        return [_part(block) for block in self._newest(key, upload_id).values()]

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> Completed:
        """Make the object; see `Uploads.complete`."""
        from azure.storage.blob import BlobBlock

        there = self._newest(key, upload_id)
        chosen = choose_parts([_part(block) for block in there.values()], parts)
        with self._about(key):
            self._client(key).commit_block_list(
                [BlobBlock(block_id=there[part.number].block_id) for part in chosen if part.size]
            )
        return Completed(self._stat(key), combined_etag(part.etag for part in chosen))

    def abort(self, key: str, upload_id: str) -> None:
        """See `Uploads.abort`; the service keeps and counts the blocks for a week."""
        self._blocks_of(key, upload_id)
        self._mark(key, upload_id, GIVEN_UP)

    def open(self) -> list[Upload]:
        """See `Uploads.open`; only uploads of keys without an object."""
        with translated(f"listing uploads in {self._uri}"):
            listed, container = set[str](), self._container()
            for what in (["uncommittedblobs"], []):
                listed ^= {item.name for item in container.list_blobs(self._root, include=what)}
        found = []
        for name in listed:
            key = name.removeprefix(self._root)
            blocks = self._blocks(key)
            over = {block.upload_id for block in blocks if block.number == GIVEN_UP}
            found += [
                Upload(key, block.upload_id, _moment(block.millis))
                for block in blocks
                if block.number == BEGUN and block.upload_id not in over
            ]
        return sorted(found, key=lambda each: (each.key, each.upload_id))

    def _newest(self, key: str, upload_id: str) -> dict[int, Block]:
        """The blocks of an upload by number; the latest of each."""
        found = sorted(self._blocks_of(key, upload_id), key=lambda block: (block.number, block.millis))
        return {block.number: block for block in found if block.number != BEGUN}

    def _blocks_of(self, key: str, upload_id: str) -> list[Block]:
        found = [block for block in self._blocks(key) if block.upload_id == upload_id]
        numbers = {block.number for block in found}
        if BEGUN not in numbers or GIVEN_UP in numbers:
            raise NotFoundError(f"no such upload of {key!r} in {self._uri}")
        return found

    def _blocks(self, key: str) -> list[Block]:
        if not key or not is_exact(self._root + key):
            return []
        with self._about(key):
            try:
                _, staged = self._client(key).get_block_list("uncommitted")
            except self._not_found:
                return []
        return [_read_id(item.id, item.size) for item in staged if _ID.fullmatch(item.id)]

    @property
    def _not_found(self) -> type[Exception]:
        from azure.core.exceptions import ResourceNotFoundError

        return ResourceNotFoundError

    def _mark(self, key: str, upload_id: str, number: int) -> None:
        with self._about(key):
            self._client(key).stage_block(block_id(upload_id, number, "0" * 32), b".", length=1)

    def _client(self, key: str) -> Any:
        return self._container().get_blob_client(self._root + key)

    def _about(self, key: str) -> Any:
        return translated(f"upload of {key!r} in {self._uri}")


def _read_id(name: str, size: int) -> Block:
    found = _ID.fullmatch(name)
    if found is None:
        raise NotFoundError(f"{name!r} is no block of ours")
    whole = 0 if found[4] == _NOTHING else size
    return Block(name, found[1], int(found[2]), int(found[3], 16), found[4], whole)


def _part(block: Block) -> Part:
    return Part(block.number, block.size, block.md5, _moment(block.millis))


def _moment(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)
