"""Storage namespaces: their folders, the keys of URIs in them, and overlaps between them.

    <namespace>/
        data/…         objects of the repository's users
        _lakefs/…      ranges and metaranges, answers of lakeFS to collectors, and this collector's own files

With overlapping namespaces, garbage of one repository may be data of another one. If a repository contains the
namespace of another one, the inner folder is kept and the rest is collected. The inner one is collected if it is
beside the outer one's `data/` and `_lakefs/`, as below the root of a bucket; any other overlap stops it.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

from msgspec import Struct

from dredge.errors import RefusedError
from dredge.storage.location import place_of, spelled
from dredge.storage.schemes import canonical_scheme, canonical_uri, served_parts

DATA = "data/"
METADATA = "_lakefs/"
_DUMMY = "dummy"
_LOCAL = f"{canonical_scheme('local')}://"


class Keys(Struct, frozen=True, kw_only=True):
    """The keys to find in entries: those of a storage namespace."""

    namespace: str
    own: bool = True  # whether the entries are of that namespace's repository; else relative addresses are not its keys
    paths: tuple[str, ...] = ()  # only of entries whose path matches one of these patterns; () for all


def canonical_namespace(uri: str) -> str:
    """Return a namespace in comparable form: one scheme for each kind of store, and one trailing slash.

    Only the scheme, the spelling of an Azure host and trailing slashes are changed: the rest is the store's key.
    """
    return canonical_uri(uri) + "/"


def key_of(location: str, namespace: str) -> str:
    """Return the key of a file or folder of the server, relative to the namespace. Raises RefusedError: it is
    elsewhere, so a reader on the namespace cannot read it."""
    inside = canonical_namespace(namespace)
    found = canonical_namespace(location)
    if not found.startswith(inside):
        raise RefusedError(
            f"lakeFS wrote its answer to {location}, which is not below the storage namespace {namespace}."
            " Nothing was deleted. The collector must read it; check the server's block store settings."
        )
    key = found[len(inside) :]
    return key if location.endswith("/") else key.rstrip("/")


def overlaps(namespaces: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Find pairs of repositories with equal or nested namespaces, in a stable order: outer and inner repository, and
    "equals", "contains" or "may overlap with"."""
    places = sorted((place, name) for name, uri in namespaces.items() for place in places_of(uri))
    return list(dict.fromkeys([*_overlapping(places), *_perhaps_overlapping(places)]))


def places_of(uri: str) -> set[str]:
    """Return every possible place of a namespace, in one spelling and with a trailing slash.

    A server reads it as a URI: `%20` may be a space, there may be a query, and other parts may be ignored (L39). The
    target of a link counts, and so does its path: a server may list a folder through either.
    """
    bare = uri.partition("?")[0]
    found = {f"{way(text)}/" for text in (uri, bare, unquote(bare)) for way in (spelled, place_of)}
    return found | set(map(_served, found))


def _served(place: str) -> str:
    scheme, separator, rest = place.partition("://")
    return "://".join(served_parts(scheme, rest)) if separator else place


def _overlapping(ordered: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    # In this order a namespace is right before those that it contains, so the search ends at the first other one.
    for index, (outer, first) in enumerate(ordered):
        for inner, second in itertools.islice(ordered, index + 1, None):
            if not inner.startswith(outer):
                break
            if first != second:
                yield first, second, "equals" if inner == outer else "contains"


def _perhaps_overlapping(namespaces: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Pairs of local namespaces, one with a whole path and one with a name only.

    Only the server knows the folder of `local://name` (L59), so it may be any folder of the whole path:
    `local://a/data/x` may be `/base/a/data/x`, inside `local:///base/a`.
    """
    local = [(uri.removeprefix(_LOCAL), name) for uri, name in namespaces if uri.startswith(_LOCAL)]
    whole = [(path.strip("/").split("/"), name) for path, name in local if path.startswith("/")]
    named = [(path.strip("/").split("/"), name) for path, name in local if not path.startswith("/")]
    return [
        (first, second, "may overlap with")
        for (path, first), (tail, second) in itertools.product(whole, named)
        if first != second and any(_is_same_way(path[start:], tail) for start in range(len(path)))
    ]


def _is_same_way(one: Sequence[str], other: Sequence[str]) -> bool:
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def refuse_sharing(repository: str, namespace: str, namespaces: Mapping[str, str]) -> frozenset[str]:
    """Refuse to continue if another repository shares the namespace now, or has it instead of this repository.

    lakeFS makes a bare or a read-only repository on any namespace (L16), for example to restore the refs of an existing
    one: from then on its commits use former garbage. Returns folders below `data/` with other repositories, relative to
    the namespace: they are kept. Raises RefusedError: any other overlap, or another namespace."""
    check_namespaces(repository, namespaces)
    if namespaces[repository] != namespace:
        raise RefusedError(
            f"the storage namespace of {repository} is {namespaces[repository]} now, and was {namespace} when the"
            " run was planned: it is another repository. Nothing (more) was deleted. Start a new run."
        )
    return frozenset(folder for folder in nested_folders(repository, namespaces) if folder.startswith(DATA))


def nested_folders(repository: str, namespaces: Mapping[str, str]) -> dict[str, str]:
    """Return the repositories inside a repository's namespace, by folder relative to it, with a trailing slash."""
    outer = places_of(namespaces[repository])
    found: dict[str, str] = {}
    for name, uri in sorted(namespaces.items()):
        for place, own in itertools.product(sorted(places_of(uri)), sorted(outer)):
            if name != repository and place != own and place.startswith(own):
                found.setdefault(place.removeprefix(own), name)
    return found


def left_folder(key: str) -> str:
    """The folder of another repository, by a key below `data/`; "" for any other key.

    Its namespace has `_lakefs/`, or `dummy` from very old servers.
    """
    inside = f"/{key}"
    if f"/{METADATA}" in inside:
        return inside.partition(f"/{METADATA}")[0].removeprefix("/") + "/"
    return key.removesuffix(_DUMMY) if key.endswith(f"/{_DUMMY}") else ""


def left_prefixes(folder: str, is_own: bool) -> tuple[str, ...]:
    """Prefixes to keep of a folder with files of an unlisted repository.

    If the repository's own objects are in the folder or its subfolders (`data/` or a slice), only lakeFS's own names
    are kept: a repository created and deleted there must not keep this one's garbage for ever.
    """
    return tuple(folder + name for name in (METADATA, DATA, _DUMMY)) if is_own else (folder,)


def check_namespaces(repository: str, namespaces: Mapping[str, str]) -> list[str]:
    """Refuse a run if its namespace overlaps with another one, except for folders to keep; return warnings.

    A run of one repository does not know the live objects of another one. lakeFS writes no file of an outer repository
    beside its `data/` and `_lakefs/`. Overlaps of other repositories do not endanger this one's objects. Raises
    RefusedError: the namespace equals others, is among their data or metadata, may overlap with them, has another one
    in its metadata, or ends with several slashes."""
    if repository not in namespaces:
        raise RefusedError(
            f"repository {repository} is not in the server's list of repositories, so its namespace cannot"
            " be compared with the others. Nothing was deleted. If it was just made, wait some seconds and"
            " start again."
        )
    if namespaces[repository].endswith("//"):
        raise RefusedError(
            f"the storage namespace {namespaces[repository]} of {repository} ends with several slashes. lakeFS keeps"
            " all but one of them in its keys and omits them in its answers, so its addresses are ambiguous. Nothing"
            " was deleted. Move the data to a repository with another namespace."
        )
    own: list[str] = []
    foreign: list[str] = []
    beside: list[str] = []
    nested = nested_folders(repository, namespaces)
    for outer, inner, how in overlaps(namespaces):
        pair = f"that of {outer} ({namespaces[outer]}) {how} that of {inner} ({namespaces[inner]})"
        if repository not in (outer, inner):
            foreign.append(pair)
        elif how != "contains" or _lies_among_files(outer, inner, namespaces, is_kept=outer == repository):
            own.append(pair)
        elif inner == repository:
            beside.append(pair)
    if own:
        raise RefusedError(
            f"the storage namespace of {repository} overlaps with others: {'; '.join(own)}. Garbage of one of"
            " them may be data of another one. Nothing (more) was deleted. Move the data of all but one of"
            " these repositories to new repositories with separate namespaces, delete the old ones in"
            " lakeFS, and start again."
        )
    warnings = [
        f"the storage namespace of repository {name} is inside that of {repository}: {folder} is kept, with all its"
        " objects. Move its data to a repository with a separate namespace"
        for folder, name in nested.items()
    ]
    if beside:
        warnings.append(
            f"the storage namespace of {repository} is inside others, beside their data: {'; '.join(beside)}. Give each"
            " a separate namespace."
        )
    if foreign:
        warnings.append(
            f"storage namespaces of other repositories overlap: {'; '.join(foreign)}. This run is not affected, but"
            " those repositories are not collected, or only in part: garbage of one may be data of another. Give each"
            " a separate namespace."
        )
    return warnings


def _lies_among_files(outer: str, inner: str, namespaces: Mapping[str, str], is_kept: bool) -> bool:
    taken = (METADATA,) if is_kept else (METADATA, DATA)
    pair = {outer: namespaces[outer], inner: namespaces[inner]}
    return any(folder.startswith(taken) for folder in nested_folders(outer, pair))
