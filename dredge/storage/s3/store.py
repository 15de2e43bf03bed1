"""Reader and writer of objects in an S3 bucket.

A page of a listing is about a thousand objects of XML. One regular expression over the bytes finds its columns, which
become Arrow arrays; a page of unexpected form (a missing ETag, another order) is parsed as XML. A page with missing
rows is an error. There is no read-ahead: a page takes 2 ms to parse and a request to S3 takes fifty, and a second
thread doubled the time of parsing.

Source: Amazon S3 API reference, ListObjectsV2 (encoding-type, KeyCount, order in bytes of UTF-8).
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC
from itertools import chain
from typing import Any
from urllib.parse import unquote_plus, unquote_to_bytes
from xml.etree import ElementTree
from xml.sax.saxutils import unescape

import pyarrow as pa
from msgspec import Struct

from dredge.errors import ConflictError, FormatError, NotFoundError, UnavailableError
from dredge.storage import remote
from dredge.storage.keys import is_client_safe, is_s3_key
from dredge.storage.listing_schema import LISTING_SCHEMA, LISTING_SCHEMA_WITH_CLASS
from dredge.storage.model import Level, ObjectInfo
from dredge.storage.options import StorageOptions
from dredge.storage.s3.access import PAGE_XML, bytes_client, s3_client
from dredge.storage.s3.resolving import translated, translated_native

BATCH_ROWS = 8000
_TIME = LISTING_SCHEMA.field("last_modified").type
_CONTENTS = b"<Contents"
_NEXT = b"</Contents><Contents>"
_PREFIXES = b"<CommonPrefixes"
_ROW = re.compile(  # in the order in which AWS and most others write them
    rb"<Contents>\s*+<Key>([^<]*+)</Key>\s*+<LastModified>([^<]*+)</LastModified>\s*+"
    rb"<ETag>(?:&quot;|&#34;|\")?+([^<&\"]*+)(?:&quot;|&#34;|\")?+</ETag>\s*+"
    rb"(?:<Checksum\w++>[^<]*+</Checksum\w++>\s*+)*+<Size>(\d++)</Size>"
)
_KEY = re.compile(rb"<Key>([^<]*)</Key>")
_MODIFIED = re.compile(rb"<LastModified>([^<]*)</LastModified>")
_ETAG = re.compile(rb"<ETag>(?:&quot;|&#34;|\")?([^<&\"]*)(?:&quot;|&#34;|\")?</ETag>")
_PLAIN_CLASS = b"<StorageClass>STANDARD</StorageClass>"
_CLASS = re.compile(rb"<StorageClass>([^<]*+)</StorageClass>")
_SIZE = re.compile(rb"<Size>(\d+)</Size>")
_FOLDER = re.compile(rb"<CommonPrefixes>\s*<Prefix>([^<]*)</Prefix>\s*</CommonPrefixes>")
_TOKEN = re.compile(rb"<NextContinuationToken>([^<]+)</NextContinuationToken>")
_TRUNCATED = re.compile(rb"<IsTruncated>\s*(true|false)\s*</IsTruncated>", re.IGNORECASE)
_COUNT = re.compile(rb"<KeyCount>(\d+)</KeyCount>")
_URL_CODED = re.compile(rb"<EncodingType>\s*url\s*</EncodingType>", re.IGNORECASE)
_CODE = re.compile(rb"%([0-9A-Fa-f]{2})")
_ENTITIES = {
    "&quot;": '"',
    "&apos;": "'",
    "&#34;": '"',
    "&#39;": "'",
    "&#43;": "+",
    "&#10;": "\n",
    "&#13;": "\r",
}
_ENTITIES |= {"&#xA;": "\n", "&#xD;": "\r"}


class Page(Struct, frozen=True):
    """Rows with whole keys, common prefixes, and the token of the next page."""

    rows: pa.RecordBatch
    folders: list[str]
    next_token: str | None


class Pages:
    """The pages of one listing request."""

    def __init__(
        self, options: StorageOptions, bucket: str, prefix: str, start_after: str, delimiter: str
    ) -> None:
        self._options = options
        self._bucket = bucket
        self._request: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix}
        if start_after:
            self._request["StartAfter"] = start_after
        if delimiter:
            self._request["Delimiter"] = delimiter
        self._what = f"listing s3://{bucket}/{prefix}"

    def fetch(self, token: str | None) -> bytes:
        """The XML of one page."""
        request = self._request if token is None else {**self._request, "ContinuationToken": token}
        with translated(self._what):
            client = s3_client(self._options, self._bucket)
            answer: dict[str, Any] = dict(client.list_objects_v2(**request))
        page = answer.get(PAGE_XML)
        if page is None or not page[-64:].rstrip().endswith(b"ListBucketResult>"):
            raise FormatError(f"{self._what}: the answer is no complete listing page; nothing of it is used")
        return bytes(page)

    def __iter__(self) -> Iterator[Page]:
        token: str | None = None
        while True:
            page = parse_page(self.fetch(token), self._what)
            if token is not None and token == page.next_token:
                raise FormatError(
                    f"{self._what}: the server repeats a continuation token, so the listing never ends"
                )
            yield page
            if (token := page.next_token) is None:
                return


def _around_rows(xml: bytes, rows: int) -> bytes:
    """A page without its objects, if nothing is between them: to search them takes as long as to read them."""
    if xml.count(_NEXT) != rows - 1:
        return xml
    return xml[: xml.find(_CONTENTS)] + xml[xml.rfind(_CONTENTS) :]


def _next_token(xml: bytes, what: str) -> str | None:
    said = [value.lower() for value in _TRUNCATED.findall(xml)]
    if len(said) != xml.count(b"<IsTruncated"):
        raise FormatError(f"{what}: a page does not say whether it is the last one")
    if b"true" not in said:
        return None
    found = _TOKEN.search(xml)
    if found is None:
        raise FormatError(f"{what}: a truncated page without a continuation token; the listing is incomplete")
    return unescape(found[1].decode(), _ENTITIES)


def parse_page(xml: bytes, what: str) -> Page:
    """Read a page; raises FormatError if rows are missing."""
    columns = _columns(xml)
    folders = _FOLDER.findall(xml) if _PREFIXES in xml else []
    if columns is None or xml.count(_PREFIXES) != len(folders):
        return _parse_by_the_book(xml, what)
    keys, times, etags, sizes = columns
    around = _around_rows(xml, len(keys))
    url_coded = _URL_CODED.search(around) is not None
    try:
        rows = _rows(_decode(keys, url_coded), times, etags, sizes, _classes(xml, len(keys)))
        names = [name.decode() for name in _decode(folders, url_coded)]
        return _checked(Page(rows, names, _next_token(around, what)), around, what)
    except (pa.ArrowException, ValueError) as error:
        raise FormatError(f"{what}: unreadable listing page: {error}") from error


def _columns(xml: bytes) -> list[list[bytes]] | None:
    """The columns of a page; None for another form."""
    expected = xml.count(_CONTENTS)
    rows = _ROW.findall(xml)
    if len(rows) == expected:
        return [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    columns = [pattern.findall(xml) for pattern in (_KEY, _MODIFIED, _ETAG, _SIZE)]
    return columns if all(len(column) == expected for column in columns) else None


def _classes(xml: bytes, count: int) -> list[bytes | None]:
    """The class of each object, None for STANDARD; [] if all are STANDARD, or the page has none."""
    if xml.count(_PLAIN_CLASS) == count:
        return []
    classes = [_special(found) for found in _CLASS.findall(xml)]
    return classes if len(classes) == count else []


def _special(storage_class: bytes) -> bytes | None:
    return None if storage_class in (b"", b"STANDARD") else storage_class


def _checked(page: Page, xml: bytes, what: str) -> Page:
    counted = _COUNT.search(xml)
    found = page.rows.num_rows + len(page.folders)
    if counted is not None and int(counted[1]) != found:
        raise FormatError(f"{what}: a page says it has {int(counted[1])} names but shows {found}")
    return page


def _decode(names: list[bytes], url_coded: bool) -> list[bytes]:
    joined = b"\n".join(names)
    if not url_coded:
        if b"&" not in joined:
            return names
        return [unescape(name.decode(), _ENTITIES).encode() for name in names]
    if b"%" not in joined and b"+" not in joined:
        return names
    codes = set(_CODE.findall(joined))
    if b"0A" in codes or b"0a" in codes:
        return [unquote_to_bytes(name.replace(b"+", b" ")) for name in names]
    # A page has few different codes, so replacing each code in the whole column is faster than decoding each name. The
    # percent sign is last: it could form a code with the text after it.
    joined = joined.replace(b"+", b" ")
    for code in codes:
        if code != b"25":
            joined = joined.replace(b"%" + code, bytes.fromhex(code.decode()))
    return joined.replace(b"%25", b"%").split(b"\n")


def _text_array(values: list[Any]) -> pa.Array:
    # Twice as fast as from `str`; raises ArrowInvalid for other encodings than UTF-8.
    return pa.array(values, pa.binary()).cast(pa.string())


def _rows(
    keys: list[bytes], times: list[bytes], etags: list[Any], sizes: list[bytes], classes: list[Any]
) -> pa.RecordBatch:
    moments = pa.array(times, pa.binary()).dictionary_encode()  # a page has few different ones
    arrays = [
        _text_array(keys),
        _text_array(sizes).cast(pa.int64()),
        moments.dictionary.cast(pa.string()).cast(_TIME).take(moments.indices),
        _text_array(etags),
        _text_array(classes or [None] * len(keys)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=LISTING_SCHEMA_WITH_CLASS)


def _parse_by_the_book(xml: bytes, what: str) -> Page:
    try:
        root = ElementTree.fromstring(xml)
        names = {tag.rpartition("}")[2] for tag in (root.tag,)}
        if names != {"ListBucketResult"}:
            raise FormatError(f"{what}: the answer is no listing page")
        url_coded = (_text(root, "EncodingType") or "").lower() == "url"

        def plain(name: str) -> str:
            return unquote_plus(name, errors="strict") if url_coded else name

        rows = [
            (
                plain(_required(item, "Key")).encode(),
                _required(item, "LastModified").encode(),
                (_text(item, "ETag") or "").strip('"').encode() or None,
                _required(item, "Size").encode(),
                _special((_text(item, "StorageClass") or "").encode()),
            )
            for item in root.iterfind("{*}Contents")
        ]
        folders = [plain(_required(item, "Prefix")) for item in root.iterfind("{*}CommonPrefixes")]
        columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], [], []]
        return _checked(Page(_rows(*columns), folders, _next_token(xml, what)), xml, what)
    except (ElementTree.ParseError, pa.ArrowException, ValueError) as error:
        raise FormatError(f"{what}: unreadable listing page: {error}") from error


def _required(element: ElementTree.Element, name: str) -> str:
    found = _text(element, name)
    if not found:
        raise ValueError(f"an entry without {name}")
    return found


def _text(element: ElementTree.Element, name: str) -> str | None:
    return element.findtext(f"{{*}}{name}")


def list_objects(
    options: StorageOptions, bucket: str, root: str, prefix: str, start_after: str, stop_before: str
) -> Iterator[pa.RecordBatch]:
    """List keys below `root` (a key prefix that ends with "/", or ""); see `ObjectReader.list`."""
    pages = Pages(options, bucket, root + prefix, root + start_after if start_after else "", "")
    held: list[pa.RecordBatch] = []
    last = ""
    for page in pages:
        last = remote.check_order(page.rows.column(0), last, f"listing s3://{bucket}/{root}{prefix}")
        rows = remote.cut_bounds(remote.cut_root(page.rows, root), start_after, stop_before)
        if rows.num_rows:
            held.append(rows)
        if sum(batch.num_rows for batch in held) >= BATCH_ROWS:
            yield pa.concat_batches(held)
            held = []
        if stop_before and last >= root + stop_before:
            break
    if held:
        yield pa.concat_batches(held)


def list_one_level(options: StorageOptions, bucket: str, root: str, prefix: str) -> Level:
    """List one level below `root`; see `ObjectReader.list_level`."""
    level = Level([], [])
    for page in Pages(options, bucket, root + prefix, "", "/"):
        level.folders.extend(folder.removeprefix(root) for folder in page.folders)
        level.objects.extend(remote.infos_of(remote.cut_root(page.rows, root)))
    return level


COPY_LIMIT_BYTES = 5 << 30


class S3Reader(remote.RemoteReader):
    """An `ObjectReader` of objects below an S3 prefix."""

    def stat(self, key: str) -> ObjectInfo:
        name, doing = self._name(key), f"stat of {key!r} in {self.uri}"
        store = bytes_client(self._options, self._bucket) if is_client_safe(name) else None
        if store is not None:
            with translated_native(doing):
                found = store.head(name)
            return ObjectInfo(
                key, found["size"], found["last_modified"].astimezone(UTC), _bare(found["e_tag"])
            )
        with translated(doing):
            answer = self._client.head_object(Bucket=self._bucket, Key=name)
        return info_of_answer(key, answer)

    def get(self, key: str) -> bytes:
        name, doing = self._name(key), f"reading {key!r} in {self.uri}"
        store = bytes_client(self._options, self._bucket) if is_client_safe(name) else None
        if store is not None:
            with translated_native(doing):
                return store.get(name).bytes().to_bytes()
        with translated(doing):
            data: bytes = self._client.get_object(Bucket=self._bucket, Key=name)["Body"].read()
            return data

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> remote.OpenObject:
        doing = f"reading {key!r} in {self.uri}"
        request: dict[str, Any] = {"Bucket": self._bucket, "Key": self._name(key)}
        if length == 0:
            return remote.OpenObject(self.stat(key))
        if start or length is not None:
            request["Range"] = f"bytes={start}-" if length is None else f"bytes={start}-{start + length - 1}"
        from botocore.exceptions import ClientError

        with translated(doing):
            try:
                answer: Any = self._client.get_object(**request)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in {"InvalidRange", "416"}:
                    return remote.OpenObject(self.stat(key))  # the range starts at or after the object's end
                raise
        body = answer["Body"]
        return remote.OpenObject(info_of_answer(key, answer), _chunks(body, doing), body.close)

    def _list(self, prefix: str, start_after: str, stop_before: str) -> Iterator[pa.RecordBatch]:
        return list_objects(self._options, self._bucket, self._root, prefix, start_after, stop_before)

    def list_level(self, prefix: str = "") -> Level:
        return list_one_level(self._options, self._bucket, self._root, prefix)

    @property
    def _client(self) -> Any:
        return s3_client(self._options, self._bucket)

    def _can_name(self, key: str) -> bool:
        return is_s3_key(key)


def _chunks(body: Any, doing: str) -> Iterator[bytes]:
    with translated(doing):
        yield from body.iter_chunks(remote.CHUNK_BYTES)


class S3Writer(S3Reader):
    """An `ObjectWriter` of objects below an S3 prefix."""

    def put(self, key: str, data: bytes) -> str | None:
        name = self._target(key)
        store = bytes_client(self._options, self._bucket) if is_client_safe(name) else None
        if store is not None:
            with translated_native(f"writing {key!r} in {self.uri}"):
                return _bare(store.put(name, data, use_multipart=False)["e_tag"])
        return self._put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        return self._put(key, data, IfNoneMatch="*")

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        try:
            return self._put(key, data, IfMatch=f'"{etag}"')
        except NotFoundError as error:
            raise ConflictError(f"{error} (expected etag {etag})") from None

    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        name = self._target(key)
        with translated(f"writing {key!r} in {self.uri}"):
            _send_stream(self._client, {"Bucket": self._bucket, "Key": name}, chunks, if_absent)
        return self.stat(key)

    def copy(self, source: str, target: str) -> ObjectInfo:
        """See `ObjectWriter.copy`; the server copies."""
        found = self.stat(source)
        origin = {"Bucket": self._bucket, "Key": self._name(source)}
        with translated(f"copying {source!r} to {target!r} in {self.uri}"):
            if found.size <= COPY_LIMIT_BYTES:
                self._client.copy_object(Bucket=self._bucket, Key=self._target(target), CopySource=origin)
            else:
                from boto3.s3.inject import copy

                copy(self._client, origin, self._bucket, self._target(target))
        return self.stat(target)

    def _put(self, key: str, data: bytes, **condition: str) -> str | None:
        with translated(f"writing {key!r} in {self.uri}"):
            answer = self._client.put_object(
                Bucket=self._bucket, Key=self._target(key), Body=data, **condition
            )
        return _bare(answer.get("ETag"))


def _send_stream(client: Any, target: dict[str, str], chunks: Iterable[bytes], if_absent: bool) -> None:
    """Write an object of unknown length: by one put, or by a multipart upload, which is aborted after an error."""
    from botocore.exceptions import BotoCoreError, ClientError

    parts, condition = remote.split_parts(chunks), {"IfNoneMatch": "*"} if if_absent else {}
    first = next(parts, b"")
    second = next(parts, None)
    if second is None:
        client.put_object(**target, Body=first, **condition)
        return
    upload = {**target, "UploadId": client.create_multipart_upload(**target)["UploadId"]}
    try:
        done = []
        for number, part in enumerate(chain([first, second], parts), 1):
            answer = client.upload_part(**upload, PartNumber=number, Body=part)
            done.append({"PartNumber": number, "ETag": answer["ETag"]})
        client.complete_multipart_upload(**upload, MultipartUpload={"Parts": done}, **condition)
    except BaseException:
        with suppress(BotoCoreError, ClientError):  # an error here must not hide the first one
            client.abort_multipart_upload(**upload)
        raise


def info_of_answer(key: str, answer: Any) -> ObjectInfo:
    """Read the answer to a HEAD or GET of an object."""
    size = answer["ContentLength"]
    if "ContentRange" in answer:  # "bytes 0-9/1234": the size of the whole object is after the slash
        size = int(answer["ContentRange"].rpartition("/")[2])
    modified = answer.get("LastModified")
    if modified is None:
        raise UnavailableError(f"the store gave no Last-Modified for {key!r}; its age is unknown")
    return ObjectInfo(key, size, modified.astimezone(UTC), _bare(answer.get("ETag")))


def _bare(etag: str | None) -> str | None:
    return etag.strip('"') if etag else None
