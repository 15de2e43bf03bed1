"""The lines of a preflight about other repositories: whether those that the settings name can be read, and whether any
other one refers to this repository, as far as a few requests tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dredge.errors import DredgeError, UnavailableError
from dredge.gc.config import GCConfig
from dredge.gc.namespaces import METADATA
from dredge.gc.referring.repositories import find_referring
from dredge.lakefs import LakeFS, Repository
from dredge.lakefs.files.addresses import answer_readings
from dredge.runs.preflight import Line, line_of, ok
from dredge.runs.rendering import number_of
from dredge.storage import StorageOptions, open_reader
from dredge.storage.parallel import ordered_map

_CHECK = "referring"
_REPOSITORIES_MAX = 20
_PAGES_MAX = 5
_PAGE = 200
_AT_ONCE = 8
_LAST = "\U0010ffff"


def check_referring(
    config: GCConfig,
    client: LakeFS,
    namespace: str,
    options: StorageOptions | None,
    *,
    repositories_max: int = _REPOSITORIES_MAX,
) -> Iterator[Line]:
    """Look at the other repositories of the server.

    Args:
        config: of the runs to come.
        client: the server.
        namespace: URI of the storage namespace of the repository.
        options: how stores are reached; None reads the environment.
        repositories_max: repositories that are searched for references; each takes a few requests.
    """
    every = client.repositories()
    named = find_referring(config, {found.name: found.namespace for found in every})
    yield from (
        line
        for lines in ordered_map(lambda item: _named(client, *item, options), list(named.items()), _AT_ONCE)
        for line in lines
    )
    others = [found for found in every if found.name != config.repository and found.name not in named]
    looked = others[:repositories_max]
    found = [
        (other.name, example)
        for other, example in zip(
            looked,
            ordered_map(lambda other: _example(client, other, namespace), looked, _AT_ONCE),
            strict=True,
        )
        if example
    ]
    for name, example in found:
        yield Line(
            _CHECK,
            "warning",
            f"repository {name} refers to objects of this one, such as {example!r}: an import or a link. They go when"
            " this repository does not use them any more",
            f"Name {name} in referring_repositories, or let it import copies.",
        )
    if not found:
        yield ok(_CHECK, _words(len(named), len(looked), len(others)))


def _words(named: int, looked: int, others: int) -> str:
    text = (
        f"entries of {number_of(named, 'other repository', 'other repositories')} count as live"
        if named
        else ""
    )
    if others:
        seen = f"{looked:,} of {others:,} others" if looked < others else f"{others:,} others"
        text += f"{'; ' if text else ''}a sample of the default branch of {seen} shows no object of this one"
    return text or "the server has no other repository"


def _named(client: LakeFS, name: str, uri: str, options: StorageOptions | None) -> Sequence[Line]:
    """Errors of what a run will read."""
    try:
        client.branches(name)
        next(iter(open_reader(uri, options).list(METADATA)), None)
    except DredgeError as error:
        todo = f"Let the credentials of the runs read {uri} and the repository, or take it off referring_repositories."
        return [line_of(_CHECK, error, todo)]
    return []


def _example(client: LakeFS, other: Repository, namespace: str) -> str:
    """A key of the namespace that the default branch of another repository names; "" where the first entries of its
    first folders name none, or where it cannot be read."""
    after = ""
    try:
        for _ in range(_PAGES_MAX):
            page, more = client.objects_page(other.name, other.default_branch, after, _PAGE)
            for stats in page:
                if keys := answer_readings(stats.address, namespace):
                    return keys[0]
            if not more or not page:
                break
            folder, slash, _ = page[-1].path.partition("/")
            after = f"{folder}/{_LAST}" if slash else page[-1].path
    except UnavailableError:
        raise
    except DredgeError:
        return ""
    return ""
