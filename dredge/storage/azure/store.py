"""Reader and writer of blobs in an Azure container.

A page is up to 5,000 blobs of XML. One regular expression over the bytes finds its columns, which become Arrow arrays;
a page of unexpected form is parsed as XML. A page with missing blobs is an error. Every page has a marker of the next
one, and the last page has an empty marker.

Flat accounts list names in order, except for characters above U+D7FF; accounts with a hierarchical namespace list `/`
before all other characters. From the first name in doubt, the rest of the listing is held and sorted into byte order.

Placeholders of directories are no objects: the service creates them (`ResourceType`), and Hadoop's drivers do
(metadata `hdi_isfolder`).

Source: Blob service REST API, List Blobs; lakeFS, pkg/block/azure/walker.go (isBlobItemFolder, out of order).
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import Any
from urllib.parse import quote, unquote, unquote_to_bytes
from xml.etree import ElementTree
from xml.sax.saxutils import unescape

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from dredge.errors import ConflictError, FormatError, NotFoundError
from dredge.storage.azure.clients import FOLDER_MARK, code_of, container_client, translated
from dredge.storage.azure.deleting import AzureCopier, block_id, new_upload_id, only_if_absent
from dredge.storage.keys import is_exact
from dredge.storage.listing_schema import LISTING_SCHEMA, LISTING_SCHEMA_WITH_CLASS
from dredge.storage.model import Level, ObjectInfo
from dredge.storage.options import StorageOptions
from dredge.storage.remote import (
    CHUNK_BYTES,
    OpenObject,
    RemoteReader,
    check_order,
    cut_bounds,
    cut_root,
    infos_of,
    split_parts,
)

PAGE_BLOBS = 5000
_TIME = LISTING_SCHEMA.field("last_modified").type
_BLOB = b"<Blob>"
_ROW = re.compile(
    rb"<Blob>\s*+<Name(?: Encoded=\"(\w++)\")?+>([^<]*+)</Name>(?:(?!<Properties>|<Blob>).)*+<Properties>"
    rb"(?:<Creation-Time>[^<]*+</Creation-Time>)?+<Last-Modified>([^<]++)</Last-Modified><Etag>([^<]++)</Etag>"
    rb"(?:<ResourceType>file</ResourceType>)?+<Content-Length>(\d++)</Content-Length>",
    re.DOTALL,
)
_MAYBE_FOLDER = re.compile(rb"hdi_isfolder|directory</ResourceType>", re.IGNORECASE)
# Metadata, which come behind the properties, may have the same names.
_TIER = re.compile(
    rb"<AccessTier>([^<]*+)</AccessTier>(?=(?:(?!</Metadata>|</Blob>).)*?</Properties>)", re.DOTALL
)
_PLAIN_TIER = b"<AccessTier>Hot</AccessTier>"
_MARKER = re.compile(rb"<NextMarker(?:\s*/>|>([^<]*)</NextMarker>)")
_HIGH = re.compile(rb"[\xee-\xf4]")  # first bytes of characters above U+DFFF
_ENTITIES = {"&quot;": '"', "&apos;": "'", "&#39;": "'", "&#34;": '"', "&#10;": "\n", "&#13;": "\r"}
_ENTITIES |= {"&#xA;": "\n", "&#xD;": "\r"}


class Page(Struct, frozen=True):
    """Rows with whole names, prefixes up to a delimiter, whether a name may be out of order, and the next marker."""

    rows: pa.RecordBatch
    folders: list[str]
    doubtful: bool
    marker: str


class Pages:
    """The pages of one listing. `start_from`: first name; "" for all. Only for accounts in the order of names."""

    def __init__(
        self, options: StorageOptions, url: str, prefix: str, start_from: str = "", delimiter: str = ""
    ) -> None:
        self._options = options
        self._url = url
        self.what = f"listing {url}/{prefix}"
        self._query = {"restype": "container", "comp": "list", "include": "metadata", "prefix": prefix}
        self._query |= {"maxresults": str(PAGE_BLOBS), "startFrom": start_from, "delimiter": delimiter}

    def fetch(self, marker: str) -> bytes:
        """The XML of one page."""
        from azure.core.rest import HttpRequest

        client: Any = container_client(self._options, self._url)
        said = {name: value for name, value in (self._query | {"marker": marker}).items() if value}
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in said.items())
        # The SDK's own pipeline, so that signing, retries and proxies are the SDK's; as a stream, which it does not
        # parse.
        request = HttpRequest(
            "GET", f"{client.url.partition('?')[0]}?{query}", headers={"x-ms-version": client.api_version}
        )
        with translated(self.what):
            answer = client._pipeline.run(request, stream=True).http_response
            body = bytes(answer.read())
            if answer.status_code != 200:
                _raise(answer)
        if not body.rstrip().endswith(b"</EnumerationResults>"):
            raise FormatError(f"{self.what}: the answer is no complete listing page; nothing of it is used")
        return body

    def __iter__(self) -> Iterator[Page]:
        marker = ""
        while True:
            page = parse_page(self.fetch(marker), self.what)
            if page.marker and page.marker == marker:
                raise FormatError(f"{self.what}: the service repeats a marker, so the listing never ends")
            yield page
            marker = page.marker
            if not marker:
                return


def _raise(answer: Any) -> None:
    from azure.core.exceptions import HttpResponseError

    error: Any = HttpResponseError(response=answer)
    error.error_code = answer.headers.get("x-ms-error-code")
    raise error


def parse_page(xml: bytes, what: str) -> Page:
    """Read a page; raises FormatError if blobs are missing."""
    found = _MARKER.search(xml)
    if found is None:
        raise FormatError(f"{what}: a page without the marker of the next one; the listing is incomplete")
    marker = unescape((found[1] or b"").decode(), _ENTITIES)
    count = xml.count(_BLOB)
    rows = _ROW.findall(xml) if count and not _MAYBE_FOLDER.search(xml) else []
    try:
        if not len(rows) == count == xml.count(b"</Blob>") or b"<BlobPrefix>" in xml:
            return _by_the_book(xml, marker)
        names = _names(rows)
        plain = xml.count(_PLAIN_TIER) == xml.count(b"<AccessTier>") == count
        tiers: list[bytes | None] = [] if plain else [_special(tier) for tier in _TIER.findall(xml)]
        if len(tiers) not in (0, count):  # some blobs have no tier: parse as XML
            return _by_the_book(xml, marker)
        columns = names, [row[2] for row in rows], [row[3] for row in rows], [row[4] for row in rows], tiers
        return Page(_rows(*columns), [], _HIGH.search(b"\n".join(names)) is not None, marker)
    except (ElementTree.ParseError, pa.ArrowException, ValueError) as error:
        raise FormatError(f"{what}: unreadable listing page: {error}") from error


def _names(rows: list[tuple[bytes, ...]]) -> list[bytes]:
    names = [row[1] for row in rows]
    if any(row[0] == b"true" for row in rows):
        names = [unquote_to_bytes(row[1]) if row[0] == b"true" else row[1] for row in rows]
    if any(b"&" in row[1] for row in rows):
        return [
            name if row[0] == b"true" else unescape(name.decode(), _ENTITIES).encode()
            for name, row in zip(names, rows, strict=True)
        ]
    return names


def _rows(
    names: list[bytes],
    times: list[bytes],
    etags: list[bytes],
    sizes: list[bytes],
    tiers: Sequence[bytes | None],
) -> pa.RecordBatch:
    moments = pa.array(times, pa.binary()).dictionary_encode()  # a page has few different ones
    seconds = [int(parsedate_to_datetime(text.as_py().decode()).timestamp()) for text in moments.dictionary]
    arrays = [
        pa.array(names, pa.binary()).cast(pa.string()),
        pa.array(sizes, pa.binary()).cast(pa.string()).cast(pa.int64()),
        pa.array(seconds, pa.timestamp("s", tz="UTC")).cast(_TIME).take(moments.indices),
        pc.utf8_trim(
            pa.array([etag.replace(b"&quot;", b"") for etag in etags], pa.binary()).cast(pa.string()), '"'
        ),
        pa.array(tiers or [None] * len(names), pa.binary()).cast(pa.string()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=LISTING_SCHEMA_WITH_CLASS)


def _by_the_book(xml: bytes, marker: str) -> Page:
    root = ElementTree.fromstring(xml)
    found = [item for item in root.iterfind("Blobs/Blob") if not _is_folder(item)]
    columns: list[list[bytes]] = [[_name(item).encode() for item in found]]
    for tag in ("Last-Modified", "Etag", "Content-Length"):
        columns.append([_required(item, f"Properties/{tag}").encode() for item in found])
    folders = [_name(item) for item in root.iterfind("Blobs/BlobPrefix")]
    tiers = [_special((item.findtext("Properties/AccessTier") or "").encode()) for item in found]
    rows = _rows(columns[0], columns[1], columns[2], columns[3], tiers)
    return Page(rows, folders, _HIGH.search(b"\n".join(columns[0])) is not None, marker)


def _special(tier: bytes) -> bytes | None:
    return b"AZURE_" + tier.upper() if tier and tier != b"Hot" else None


def _is_folder(item: ElementTree.Element) -> bool:
    if item.findtext("Properties/ResourceType") == "directory":
        return True
    said = item.find("Metadata")
    marks = [] if said is None else [mark.text for mark in said if mark.tag.lower() == FOLDER_MARK]
    return marks == ["true"] and item.findtext("Properties/Content-Length") == "0"


def _name(item: ElementTree.Element) -> str:
    name = _required(item, "Name")
    found = item.find("Name")
    return unquote(name, errors="strict") if found is not None and found.get("Encoded") == "true" else name


def _required(item: ElementTree.Element, path: str) -> str:
    found = item.findtext(path)
    if not found:
        raise ValueError(f"a blob without {path}")
    return found


_flat: dict[tuple[int, StorageOptions, str], bool] = {}


def is_flat(options: StorageOptions, url: str) -> bool:
    """Whether an account has no hierarchical namespace; False if the credentials may not ask."""
    from azure.core.exceptions import AzureError

    known = os.getpid(), options, url
    if known not in _flat:
        try:
            said: dict[str, Any] = container_client(options, url).get_account_information()
        except AzureError:
            said = {}
        _flat[known] = str(said.get("is_hns_enabled", "true")).lower() == "false"
    return _flat[known]


def list_blobs(
    options: StorageOptions, url: str, root: str, prefix: str, start_after: str, stop_before: str
) -> Iterator[pa.RecordBatch]:
    """List names below `root` (a prefix that ends with "/", or ""); see `ObjectReader.list`."""
    flat = is_flat(options, url)
    # All names between two names start with their common prefix.
    shared = os.path.commonprefix([start_after, stop_before or start_after])  # noqa: RUF071 - text, no paths
    common = shared if stop_before and shared.startswith(prefix) else prefix
    start = root + start_after if flat and start_after > common else ""
    pages = Pages(options, url, root + common, start)
    for whole in _in_byte_order(
        pages, flat, root + stop_before if stop_before.isascii() and stop_before else ""
    ):
        rows = cut_bounds(cut_root(whole, root), start_after, stop_before)
        rows = rows.filter(pc.starts_with(rows.column(0), prefix))
        if rows.num_rows:
            yield rows


def _in_byte_order(pages: Pages, flat: bool, stop: str) -> Iterator[pa.RecordBatch]:
    """Yield pages in byte order; from the first name in doubt, the rest is held and sorted. `flat`: whether the account
    lists names in order. `stop`: the first name after the wanted names, in ASCII, for which all orders agree; "" for
    none."""
    last, held = "", list[pa.RecordBatch]()
    for page in pages:
        held_back = held or page.doubtful or not flat
        if held_back:
            held.append(page.rows)
        elif page.rows.num_rows:
            last = check_order(page.rows.column(0), last, pages.what)
            yield page.rows
        if flat and stop and page.rows.num_rows and pc.all(_behind(page.rows, stop)).as_py():
            break
    if held:
        rows = pa.Table.from_batches(held).sort_by("key").combine_chunks()
        for batch in rows.to_batches(max_chunksize=PAGE_BLOBS):
            last = check_order(batch.column(0), last, pages.what)
            yield batch


def _behind(rows: pa.RecordBatch, stop: str) -> pa.BooleanArray:
    return pc.greater_equal(rows.column(0)[-1:], stop)


def list_one_level(options: StorageOptions, url: str, root: str, prefix: str) -> Level:
    """List one level below `root`; see `ObjectReader.list_level`."""
    folders, objects = set[str](), list[ObjectInfo]()
    for page in Pages(options, url, root + prefix, delimiter="/"):
        folders.update(folder.removeprefix(root) for folder in page.folders)
        objects += infos_of(cut_root(page.rows, root))
    return Level(sorted(folders), sorted(objects, key=lambda info: info.key))


class AzureReader(RemoteReader):
    """An `ObjectReader` of blobs below a prefix of a container."""

    def stat(self, key: str) -> ObjectInfo:
        client = self._blob(key)
        with translated(f"stat of {key!r} in {self.uri}"):
            return _info(key, client.get_blob_properties())

    def get(self, key: str) -> bytes:
        with self.open_read(key) as stream:
            return b"".join(stream)

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> OpenObject:
        from azure.core.exceptions import HttpResponseError

        doing = f"reading {key!r} in {self.uri}"
        client = self._blob(key)
        if length == 0:
            return OpenObject(self.stat(key))
        part = bool(start) or length is not None
        with translated(doing):
            try:
                # Later requests of a long object carry the first one's ETag, so that no two objects are mixed.
                # Stored bytes are not decompressed, even with a Content-Encoding.
                opened = client.download_blob(
                    offset=start if part else None, length=length, max_concurrency=1, decompress=False
                )
            except HttpResponseError as error:
                if part and (code_of(error) == "InvalidRange" or error.status_code == 416):
                    return OpenObject(self.stat(key))  # the range starts at or after the object's end
                raise
        return OpenObject(_info(key, opened.properties), _chunks(opened, doing))

    def _list(self, prefix: str, start_after: str, stop_before: str) -> Iterator[pa.RecordBatch]:
        return list_blobs(self._options, self._bucket, self._root, prefix, start_after, stop_before)

    def list_level(self, prefix: str = "") -> Level:
        return list_one_level(self._options, self._bucket, self._root, prefix)

    def _can_name(self, key: str) -> bool:
        return is_exact(self._root + key) and bool(key)

    def _blob(self, key: str) -> Any:
        return self._container.get_blob_client(self._name(key))

    @property
    def _container(self) -> Any:
        return container_client(self._options, self._bucket)


def _chunks(opened: Any, doing: str) -> Iterator[bytes]:
    with translated(doing):
        for piece in opened.chunks():
            for start in range(0, len(piece), CHUNK_BYTES):
                yield piece[start : start + CHUNK_BYTES]


class AzureWriter(AzureReader):
    """An `ObjectWriter` of blobs below a prefix of a container."""

    def put(self, key: str, data: bytes) -> str | None:
        return self._put(key, data, overwrite=True)

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        return self._put(key, data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        from azure.core import MatchConditions

        try:
            return self._put(
                key, data, overwrite=True, etag=f'"{etag}"', match_condition=MatchConditions.IfNotModified
            )
        except NotFoundError as error:
            raise ConflictError(f"{error} (expected etag {etag})") from None

    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        client = self._container.get_blob_client(self._target(key))
        with translated(f"writing {key!r} in {self.uri}"):
            _send_stream(client, chunks, if_absent)
        return self.stat(key)

    def copy(self, source: str, target: str) -> ObjectInfo:
        """See `ObjectWriter.copy`; the server copies."""
        self._name(source)
        self._target(target)
        return AzureCopier(self._location, self._location, self._options).copy_to(source, target)

    def _put(self, key: str, data: bytes, **more: Any) -> str | None:
        client = self._container.get_blob_client(self._target(key))
        with translated(f"writing {key!r} in {self.uri}"):
            answer = client.upload_blob(data, length=len(data), **more)
        return str(answer["etag"]).strip('"')


def _send_stream(client: Any, chunks: Iterable[bytes], if_absent: bool) -> None:
    """Write a blob of unknown length with one block in memory; after an error the blob is unchanged."""
    # Blocks are in no listing, and the service drops staged ones after a week.
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


def _info(key: str, found: Any) -> ObjectInfo:
    marks = {name.lower(): value for name, value in (found.metadata or {}).items()}
    if marks.get(FOLDER_MARK) == "true" and not found.size:
        raise NotFoundError(f"{key!r} is a directory, not an object")
    if found.last_modified is None or found.etag is None:
        raise FormatError(f"the store gave no Last-Modified or ETag for {key!r}; its age is unknown")
    whole = (
        found.content_range or ""
    )  # of a part, "bytes 0-9/1234": the whole object's size is behind the slash
    size = int(whole.rpartition("/")[2]) if whole else found.size
    tier = f"AZURE_{found.blob_tier}".upper() if found.blob_tier and found.blob_tier != "Hot" else None
    return ObjectInfo(key, size, found.last_modified.astimezone(UTC), found.etag.strip('"'), tier)
