"""Multipart uploads to a folder, as hidden files.

<root>/.dredge-tmp~uploads/<upload id>/key            the object's key
<root>/.dredge-tmp~uploads/<upload id>/00003.<md5>    a part
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from dredge.errors import ConfigError, NotFoundError
from dredge.storage.local.folder import RESERVED, Folder, info_of, is_addressable, os_error
from dredge.storage.uploads import (
    Completed,
    Part,
    Upload,
    UploadRefusedError,
    check_part_number,
    choose_parts,
    combined_etag,
)

CHUNK_BYTES = 1 << 20
FOLDER = f"{RESERVED}uploads"
_KEY_FILE = "key"
_ID = re.compile(r"[0-9a-f]{32}")
_PART = re.compile(r"(\d{5})\.([0-9a-f]{32})")


class LocalUploads:
    """See `dredge.storage.uploads.Uploads`."""

    def __init__(self, folder: Folder, uri: str) -> None:
        self._folder = folder
        self._uri = uri

    def begin(self, key: str) -> str:
        """See `Uploads.begin`."""
        if not is_addressable(key):
            raise ConfigError(f"{key!r} cannot be the name of a file below {self._uri}; nothing was begun")
        upload_id = secrets.token_hex(16)
        with self._translated("beginning an upload"):
            self._folder.write([FOLDER, upload_id], _KEY_FILE, [key.encode()])
        return upload_id

    def put_part(self, key: str, upload_id: str, number: int, chunks: Iterable[bytes]) -> Part:
        """See `Uploads.put_part`."""
        check_part_number(number)
        digest = hashlib.md5(usedforsecurity=False)

        def hashed() -> Iterator[bytes]:
            for chunk in chunks:
                digest.update(chunk)
                yield chunk

        def name() -> str:
            return f"{number:05d}.{digest.hexdigest()}"

        with self._upload(key, upload_id) as place:
            self._folder.write([FOLDER, upload_id], name, hashed())
            if not os.path.exists(f"{place}/{_KEY_FILE}"):  # ended meanwhile
                self._remove(place)
                raise FileNotFoundError
            for other in os.listdir(place):
                if other.startswith(f"{number:05d}.") and other != name():
                    with suppress(FileNotFoundError):
                        os.unlink(f"{place}/{other}")
            return _part(place, name())

    def parts(self, key: str, upload_id: str) -> list[Part]:
        """See `Uploads.parts`."""
        with self._upload(key, upload_id) as place:
            return _parts(place)

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> Completed:
        """See `Uploads.complete`."""
        *parents, name = key.split("/")
        with self._upload(key, upload_id) as place:
            try:
                chosen = choose_parts(_parts(place), parts)
            except UploadRefusedError:
                _read_key(place)  # raises if another process completed the upload and is removing its parts
                raise

            chunks = _chunks(f"{place}/{part.number:05d}.{part.etag}" for part in chosen)
            info = info_of(key, self._folder.write(parents, name, chunks))
            self._remove(place)
        return Completed(info, combined_etag(part.etag for part in chosen))

    def abort(self, key: str, upload_id: str) -> None:
        """See `Uploads.abort`."""
        with self._upload(key, upload_id) as place:
            self._remove(place)

    def open(self) -> list[Upload]:
        """See `Uploads.open`."""
        found, above = [], f"{self._folder.root}/{FOLDER}"
        with suppress(FileNotFoundError):
            for name in os.listdir(above):
                with suppress(OSError):  # ended meanwhile
                    place = f"{above}/{name}"
                    begun = datetime.fromtimestamp(os.stat(f"{place}/{_KEY_FILE}").st_mtime, UTC)
                    found.append(Upload(_read_key(place), name, begun))
        return sorted(found, key=lambda each: (each.key, each.upload_id))

    @contextmanager
    def _upload(self, key: str, upload_id: str) -> Iterator[str]:
        """The folder of an upload of this key."""
        place = f"{self._folder.root}/{FOLDER}/{upload_id}"
        with self._translated(f"upload of {key!r}"):
            with suppress(FileNotFoundError):
                if _ID.fullmatch(upload_id) and _read_key(place) == key:
                    yield place
                    return
            raise NotFoundError(f"no upload {upload_id!r} of {key!r} in {self._uri}")

    def _remove(self, place: str) -> None:
        # The key comes first, so a half-removed upload is none.
        with suppress(FileNotFoundError):
            os.unlink(f"{place}/{_KEY_FILE}")
        shutil.rmtree(place, ignore_errors=True)
        self._folder.prune([FOLDER])

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise os_error(error, f"{doing} in {self._uri}") from error


def _chunks(paths: Iterable[str]) -> Iterator[bytes]:
    for path in paths:
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk


def _read_key(place: str) -> str:
    with open(f"{place}/{_KEY_FILE}", "rb") as file:
        return file.read().decode()


def _parts(place: str) -> list[Part]:
    return [_part(place, name) for name in sorted(os.listdir(place)) if _PART.fullmatch(name)]


def _part(place: str, name: str) -> Part:
    found, (number, _, etag) = os.stat(f"{place}/{name}"), name.partition(".")
    return Part(int(number), found.st_size, etag, datetime.fromtimestamp(found.st_mtime, UTC))
