"""Lists an Azure container: pages read column-wise, complete, in byte order.

A page is up to 5,000 blobs of XML. One regular expression over the bytes finds its columns, which become Arrow arrays;
a page of unexpected form is parsed as XML. A page with missing blobs is an error. Every page has a marker of the next
one, and the last page has an empty marker.

Flat accounts list names in order, except for characters above U+D7FF; accounts with a hierarchical namespace list `/`
before all other characters. From the first name in doubt, the rest of the listing is held and sorted into byte order.

Placeholders of directories are no objects: the service creates them (`ResourceType`), and Hadoop's drivers do
(metadata `hdi_isfolder`).

Source: Blob service REST API, List Blobs; lakeFS, pkg/block/azure/walker.go (isBlobItemFolder, out of order).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, unquote, unquote_to_bytes
from xml.etree import ElementTree
from xml.sax.saxutils import unescape

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.storage.azure.clients import FOLDER_MARK, container_client, translated
from dredge.storage.listing_schema import LISTING_SCHEMA, LISTING_SCHEMA_WITH_CLASS
from dredge.storage.model import Level, ObjectInfo
from dredge.storage.options import StorageOptions
from dredge.storage.remote import check_order, cut_bounds, cut_root, infos_of

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


@dataclass(frozen=True, slots=True)
class Page:
    """Rows with whole names, prefixes up to a delimiter, whether a name may be out of order, and the next marker."""

    rows: pa.RecordBatch
    folders: list[str]
    doubtful: bool
    marker: str


class Pages:
    """The pages of one listing.

    Args:
        start_from: first name; "" for all. Only for accounts in the order of names.
    """

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
                raise FormatError(f"{self.what}: the service repeats a marker; there is no end")
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
        raise FormatError(
            f"{what}: a page that does not say whether another follows; the listing is incomplete"
        )
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
    """Yield pages in byte order; from the first name in doubt, the rest is held and sorted.

    Args:
        flat: whether the account lists names in order.
        stop: the first name after the wanted names, in ASCII, for which all orders agree; "" for none.
    """
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
