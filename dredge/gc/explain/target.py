"""What is asked about: a path of a ref, or an address in the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dredge.errors import ConfigError, DredgeError, NotFoundError
from dredge.gc.check_limits import keys_in_store
from dredge.gc.namespaces import DATA, canonical_namespace
from dredge.lakefs import LakeFS
from dredge.lakefs.files.addresses import AddressType, answer_readings, canonical_address
from dredge.storage import StorageOptions, open_reader

LAKEFS = "lakefs://"


@dataclass(frozen=True, slots=True)
class Target:
    """An object of a repository.

    Attributes:
        repository: name.
        namespace: URI of its storage namespace.
        address: key relative to the namespace.
        ref: that was asked; "" where an address was.
        path: that was asked.
    """

    repository: str
    namespace: str
    address: str
    ref: str = ""
    path: str = ""


def find_target(
    client: LakeFS, given: str, repository: str | None = None, options: StorageOptions | None = None
) -> Target:
    """Find out which object is meant.

    Args:
        client: the server.
        given: `lakefs://repo/ref/path`, a URI in the store, or an address relative to a repository's namespace.
        repository: whose, where the address alone does not say.
        options: how to reach the store; None reads the environment.

    Raises:
        ConfigError: it is none of these, or in no repository's namespace.
        NotFoundError: the ref has no such path, or there is no such repository.
    """
    if given.startswith(LAKEFS):
        return _of_path(client, given, options)
    if repository is not None:
        found = client.repository(repository)
        return Target(found.name, found.namespace, _key(given, found.namespace))
    if "://" not in given:
        raise ConfigError(
            f"{given!r} does not say whose it is: name the repository (--repository), or give a whole URI"
        )
    inside = [
        item
        for item in client.repositories()
        if canonical_namespace(given).startswith(canonical_namespace(item.namespace))
    ]
    if not inside:
        raise ConfigError(f"{given} lies in the storage namespace of no repository of this server")
    owner = max(inside, key=lambda item: len(canonical_namespace(item.namespace)))
    return Target(owner.name, owner.namespace, _key(given, owner.namespace))


def _of_path(client: LakeFS, given: str, options: StorageOptions | None) -> Target:
    name, _, rest = given.removeprefix(LAKEFS).partition("/")
    ref, _, path = rest.partition("/")
    if not (name and ref and path):
        raise ConfigError(f"{given!r} is not of the form lakefs://repository/ref/path")
    found = client.repository(name)
    shown = client.stat(name, ref, path)
    keys = answer_readings(shown.address, found.namespace)
    if not keys:
        raise NotFoundError(
            f"{given} is at {shown.address}, outside the storage namespace {found.namespace}: no collection touches it"
        )
    return Target(name, found.namespace, _meant(found.namespace, keys, shown.size_bytes, options), ref, path)


def _meant(namespace: str, keys: Sequence[str], size_bytes: int, options: StorageOptions | None) -> str:
    """The key that a server means by an answer: one that is in the store, with the size that it tells."""
    reader = open_reader(namespace, options)
    try:
        there = keys_in_store(reader, keys)
        if len(there) > 1:
            there = [key for key in there if reader.stat(key).size == size_bytes] or there
    except DredgeError:
        there = []  # the answer says that the store cannot be looked at
    return next(iter(there), keys[0])


def _key(given: str, namespace: str) -> str:
    key = canonical_address(given, AddressType.FULL, namespace) if "://" in given else given
    if key is None:
        raise ConfigError(f"{given} is not below {namespace}")
    if not key.startswith(DATA):
        raise ConfigError(f"{key!r} is not below {DATA}: no collection touches it")
    return key
