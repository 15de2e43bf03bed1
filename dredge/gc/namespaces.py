"""Storage namespaces: what lies where in one, where a URI leads in it, and whether two of them overlap.

    <namespace>/
        data/…         objects of the repository's users
        _lakefs/…      ranges and metaranges, what lakeFS prepares for collectors, and this collector's own files

Where namespaces overlap, what is garbage to one repository may be another one's data. Of a repository that contains
another one's namespace, the folder of the inner one is kept and the rest is collected. The inner one is collected if it
lies beside the outer one's `data/` and `_lakefs/`, as below a bucket's root; any other overlap stops it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from dredge.errors import RefusedError
from dredge.storage.location import place_of, spelled
from dredge.storage.schemes import canonical_scheme, canonical_uri, served_parts

DATA = "data/"
METADATA = "_lakefs/"
_DUMMY = "dummy"
_LOCAL = f"{canonical_scheme('local')}://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Which keys are looked for in entries; a payload.

    Attributes:
        namespace: URI of the storage namespace whose keys they are.
        own: whether the entries are of the repository of that namespace. Of another one, relative addresses are no keys
            of it.
    """

    namespace: str
    own: bool = True


def canonical_namespace(uri: str) -> str:
    """Give a namespace the form in which two of them can be compared: one scheme for each kind of store, and one
    trailing slash.

    Args:
        uri: as a server words it. Nothing but the scheme, the spelling of an Azure host and trailing slashes
            is changed: the rest is the store's key.
    """
    return canonical_uri(uri) + "/"


def key_of(location: str, namespace: str) -> str:
    """Give the key, relative to the namespace, of a file or folder that the server names.

    Args:
        location: full URI.
        namespace: URI of the storage namespace.

    Raises:
        RefusedError: it lies elsewhere, where a reader on the namespace cannot reach it.
    """
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
    """Find pairs of repositories with equal or nested namespaces.

    Args:
        namespaces: URI by repository.

    Returns:
        (outer repository, inner repository, how: "equals", "contains" or "may overlap with"), in a stable order.
    """
    places = sorted((place, name) for name, uri in namespaces.items() for place in places_of(uri))
    return list(dict.fromkeys([*_overlapping(places), *_perhaps_overlapping(places)]))


def places_of(uri: str) -> set[str]:
    """Give every place that a namespace may mean, each with one spelling and a slash at its end.

    A server reads it as a URI: `%20` may be a space, there may be a query, and more of it may say nothing (L39). And
    where links lead counts as well as the way to them: a server may list a folder through either.
    """
    bare = uri.partition("?")[0]
    found = {f"{way(text)}/" for text in (uri, bare, unquote(bare)) for way in (spelled, place_of)}
    return found | set(map(_served, found))


def _served(place: str) -> str:
    scheme, separator, rest = place.partition("://")
    return "://".join(served_parts(scheme, rest)) if separator else place


def _overlapping(ordered: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    # Sorted, a namespace stands right before all that it contains, so the search for those inside it ends at the
    # first one that is not.
    for index, (outer, first) in enumerate(ordered):
        for inner, second in itertools.islice(ordered, index + 1, None):
            if not inner.startswith(outer):
                break
            if first != second:
                yield first, second, "equals" if inner == outer else "contains"


def _perhaps_overlapping(namespaces: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Pairs of namespaces on a server's local folders of which one has a whole path and the other one only a name.

    Only the server knows in which folder `local://name` lies (L59), so any folder counts that is on the whole path:
    `local://a/data/x` may be `/base/a/data/x`, and then lies in `local:///base/a`.
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
    """Whether one path leads to the other one, or they are the same."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def refuse_sharing(repository: str, namespace: str, namespaces: Mapping[str, str]) -> frozenset[str]:
    """Refuse to go on with a namespace that another repository shares by now, or that is another repository's.

    lakeFS makes a bare or a read-only repository on any namespace (L16), such as to restore its refs beside those of an
    existing one: at once its commits name what was garbage.

    Args:
        repository: that is worked on.
        namespace: of it, when the work was planned.
        namespaces: URI by repository, all of the server, as of now.

    Returns:
        Folders below `data/`, relative to the namespace, in which other repositories lie: they are kept.

    Raises:
        RefusedError: it overlaps with another one otherwise, or is not this repository's any more.
    """
    check_namespaces(repository, namespaces)
    if namespaces[repository] != namespace:
        raise RefusedError(
            f"the storage namespace of {repository} is {namespaces[repository]} by now, and was {namespace} when the"
            " run was planned: it is another repository. Nothing (more) was deleted. Start a new run."
        )
    return frozenset(folder for folder in nested_folders(repository, namespaces) if folder.startswith(DATA))


def nested_folders(repository: str, namespaces: Mapping[str, str]) -> dict[str, str]:
    """Find the folders of a repository's namespace in which other repositories lie.

    Args:
        repository: the one to collect; must be among the namespaces.
        namespaces: URI by repository, all of the server.

    Returns:
        Name of a repository by its folder, relative to the namespace, with a slash at its end.
    """
    outer = places_of(namespaces[repository])
    found: dict[str, str] = {}
    for name, uri in sorted(namespaces.items()):
        for place, own in itertools.product(sorted(places_of(uri)), sorted(outer)):
            if name != repository and place != own and place.startswith(own):
                found.setdefault(place.removeprefix(own), name)
    return found


def left_folder(key: str) -> str:
    """The folder of the repository that a key below `data/` shows; "" for a key that shows none.

    lakeFS puts `_lakefs/` into a namespace, and very old servers put `dummy` there.
    """
    inside = f"/{key}"
    if f"/{METADATA}" in inside:
        return inside.partition(f"/{METADATA}")[0].removeprefix("/") + "/"
    return key.removesuffix(_DUMMY) if key.endswith(f"/{_DUMMY}") else ""


def left_prefixes(folder: str, is_own: bool) -> tuple[str, ...]:
    """What is kept of a folder that shows a repository which the server does not list.

    Args:
        folder: relative to the namespace, with a slash at its end.
        is_own: whether objects of this repository lie directly in the folder or in its folders: it is `data/` or a
            slice. Then only what lakeFS writes into a namespace is kept, so that a repository that was made and
            deleted there does not keep the garbage of this one for ever.
    """
    return tuple(folder + name for name in (METADATA, DATA, _DUMMY)) if is_own else (folder,)


def check_namespaces(repository: str, namespaces: Mapping[str, str]) -> list[str]:
    """Refuse a run when its repository's namespace overlaps with another one's and more than a folder would be kept.

    A run of one repository does not know what is live in another one. Folders of this namespace in which others lie are
    kept (`nested_folders`). lakeFS puts nothing of an outer repository beside its `data/` and `_lakefs/`. Overlaps that
    this repository has no part in do not endanger its objects.

    Args:
        repository: the one to collect; must be among the namespaces.
        namespaces: URI by repository, all of the server.

    Returns:
        Warnings.

    Raises:
        RefusedError: this repository's namespace equals others, lies among their data or metadata, or may overlap with
            them, or another one lies in its metadata; all of them are named. Or it ends with several slashes.
    """
    if repository not in namespaces:
        raise RefusedError(
            f"repository {repository} is not in the server's list of repositories, so its namespace cannot"
            " be compared with the others. Nothing was deleted. If it was just made, wait some seconds and"
            " start again."
        )
    if namespaces[repository].endswith("//"):
        raise RefusedError(
            f"the storage namespace {namespaces[repository]} of {repository} ends with several slashes. lakeFS keeps"
            " all but one of them in its keys and leaves them out of its answers, so what its addresses mean is not"
            " certain. Nothing was deleted. Move the data to a repository with another namespace."
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
            f"the storage namespace of {repository} overlaps with others: {'; '.join(own)}. What one of them"
            " does not use may be another one's data. Nothing (more) was deleted. Move the data of all but one of"
            " these repositories to a new repository with a namespace of its own, delete the old one in"
            " lakeFS, and start again."
        )
    warnings = [
        f"the storage namespace of repository {name} lies in that of {repository}: {folder} is kept, with everything in"
        " it. Move its data to a repository with a namespace of its own"
        for folder, name in nested.items()
    ]
    if beside:
        warnings.append(
            f"the storage namespace of {repository} lies in others, beside their data: {'; '.join(beside)}. Give each"
            " a namespace of its own."
        )
    if foreign:
        warnings.append(
            f"storage namespaces of other repositories overlap: {'; '.join(foreign)}. This run is not affected, but"
            " those repositories are not collected, or only in part: what one of them does not use may be another"
            " one's data. Give each a namespace of its own."
        )
    return warnings


def _lies_among_files(outer: str, inner: str, namespaces: Mapping[str, str], is_kept: bool) -> bool:
    """Whether an inner repository lies where the outer one has its metadata, or its data.

    Args:
        outer: name of a repository.
        inner: of another one, whose namespace lies in the outer one's.
        namespaces: URI by repository.
        is_kept: whether the folder of the inner one is kept, so that it may lie among the data.
    """
    taken = (METADATA,) if is_kept else (METADATA, DATA)
    pair = {outer: namespaces[outer], inner: namespaces[inner]}
    return any(folder.startswith(taken) for folder in nested_folders(outer, pair))
