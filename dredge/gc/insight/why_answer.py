"""What is asked about: a path of a ref, or an address in the store.

The answer to "why is this object here?".

An answer for people.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dredge.errors import ConfigError, DredgeError, NotFoundError
from dredge.gc.check_limits import keys_in_store
from dredge.gc.namespaces import DATA, canonical_namespace
from dredge.lakefs import LakeFS
from dredge.lakefs.files.addresses import AddressType, answer_readings, canonical_address
from dredge.runs.words import size_text
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


KEPT, GARBAGE, DELETED, MISSING, ABSENT = "kept", "garbage", "deleted", "missing", "absent"
UNKNOWN = "unknown"
STORE, COMMITS = "the store", "commits"
VERDICTS = {
    KEPT: "it stays",
    GARBAGE: "nothing that was looked at keeps it",
    DELETED: "a run deleted it",
    MISSING: "something names it, but the store does not have it",
    ABSENT: "the store does not have it, and nothing that was looked at names it",
    UNKNOWN: "nobody can tell: what could keep it, or the store, could not be looked at",
}


@dataclass(frozen=True, slots=True)
class StagedBy:
    """A branch that has the object staged.

    Attributes:
        branch: its name; "" where only a run tells that some branch had.
        path: where; "" where it is not known.
        token: staging token; "" where only the key-value store could tell.
        as_of: when that was so, where it is not now.
    """

    branch: str
    path: str = ""
    token: str = ""
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class NamedBy:
    """A commit that names the object.

    Attributes:
        commit_id: its id.
        created_at: its date; None where nobody told.
        active: whether it keeps the object.
        paths: under which; () where its ranges were not decoded.
        heads: branches of which it is the head.
        branches: some branches on whose line it is.
        num_branches: how many there are.
        tags: tags that name it.
        policies: rules of the retention policy that keep it.
        until: when the rules of the repository let it go, if it is no head by then; None where they never do, or
            do not keep it.
        rule: the rule of the repository that keeps it the longest; "" for none.
    """

    commit_id: str
    created_at: datetime | None
    active: bool
    paths: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    num_branches: int = 0
    tags: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    until: datetime | None = None
    rule: str = ""


@dataclass(frozen=True, slots=True)
class UnnamedBy:
    """A metarange that names the object and that no active commit names; runs count it as an active commit.

    Attributes:
        metarange_id: its id.
        written_at: by the store's clock.
        until: when runs do not count it any more; None where that is up to the next complete mark.
        paths: under which; () where its ranges were not decoded.
    """

    metarange_id: str
    written_at: datetime
    until: datetime | None
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run thought of the object.

    Attributes:
        run_id: the run.
        at: when it was planned, or when its sweep ended.
        reason: why it was garbage.
        outcome: what became of it, as the ledger has it; "" where the run deleted nothing.
        hold: the code of what held it; "" for nothing.
        why: a sentence about reason, hold or error.
        version_id: of the delete marker in a bucket with versions, below which the object still is; "" for none.
        approved_by: who approved the run; "" where nobody had to.
        approved_at: when; None where nobody had to.
        restorable: "versions" or "quarantine" when it can be brought back, as the store said; "" when it cannot.
        restorable_until: when a purge or a lifecycle rule of the bucket may remove what a restore needs; None where
            nothing does.
    """

    run_id: str
    at: datetime
    reason: str
    outcome: str
    hold: str
    why: str
    version_id: str = ""
    approved_by: str = ""
    approved_at: datetime | None = None
    restorable: str = ""
    restorable_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class PinnedBy:
    """A pin that holds the object, because somebody brought it back.

    Attributes:
        pin_id: its id.
        run_id: the run whose deletion was taken back.
        reason: in the words of whoever asked for it.
        until: when it ends.
    """

    pin_id: str
    run_id: str
    reason: str
    until: datetime


@dataclass(slots=True)
class Answer:
    """Everything found about an object.

    Attributes:
        target: what was asked.
        size_bytes: None where the store has no such object.
        last_modified: by the store's clock.
        young_until: until when it is too young to be judged; None when it is old enough.
        staged: by which branches.
        commits: that name it, those that keep it first, the newest first.
        unnamed: metaranges that no active commit names, and that keep it.
        pins: that hold it and have not ended.
        judged: by the newest run that did.
        not_looked_at: what could still keep it, as sentences.
        failed: what of that could not be read, so that nothing follows from not having seen it.
    """

    target: Target
    size_bytes: int | None = None
    last_modified: datetime | None = None
    young_until: datetime | None = None
    staged: list[StagedBy] = field(default_factory=list)
    commits: list[NamedBy] = field(default_factory=list)
    unnamed: list[UnnamedBy] = field(default_factory=list)
    pins: list[PinnedBy] = field(default_factory=list)
    judged: Judged | None = None
    not_looked_at: list[str] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)

    @property
    def is_named(self) -> bool:
        """Whether staging, an active commit or a metarange that counts as one names it."""
        return bool(self.staged or self.unnamed) or any(commit.active for commit in self.commits)

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        if STORE in self.failed:
            return UNKNOWN
        if self.size_bytes is None:
            if self.is_named:
                return MISSING
            if self.judged is not None and self.judged.outcome == "deleted":
                return DELETED
            return UNKNOWN if self.failed else ABSENT
        held = bool(self.pins) or (
            self.judged is not None and (self.judged.hold or self.judged.outcome == "kept")
        )
        if self.is_named or self.young_until is not None or held:
            return KEPT
        return UNKNOWN if self.failed else GARBAGE


_COMMITS_MAX = 10


def answer_lines(answer: Answer) -> Iterator[str]:
    """Word an answer: the verdict first, then every reason, then what was not looked at."""
    target = answer.target
    yield f"{target.address} of {target.repository}: {VERDICTS[answer.verdict]}"
    if answer.size_bytes is not None and answer.last_modified is not None:
        yield f"  {size_text(answer.size_bytes)}, last modified {answer.last_modified:%Y-%m-%d %H:%M:%S} UTC"
    for staged in answer.staged:
        yield f"staged    {_staged(staged)}"
    active = [commit for commit in answer.commits if commit.active]
    yield from (f"commit    {_commit(commit)}" for commit in active[:_COMMITS_MAX])
    if len(active) > _COMMITS_MAX:
        yield f"          and {len(active) - _COMMITS_MAX:,} older commits"
    yield from (f"metarange {_unnamed(item)}" for item in answer.unnamed)
    for pin in answer.pins:
        until = f"{pin.until:%Y-%m-%d %H:%M} UTC"
        yield f"pinned    brought back after run {pin.run_id} deleted it, until {until}: {pin.reason}"
    if answer.young_until is not None:
        yield f"young     no run judges it before {answer.young_until:%Y-%m-%d %H:%M} UTC"
    if answer.judged is not None:
        yield f"run       {_judged(answer.judged)}"
    expired = [commit for commit in answer.commits if not commit.active]
    if expired:
        newest = expired[0]
        yield f"expired   {_commit(newest)}; {len(expired):,} such commits, which keep nothing any more"
    for text in answer.not_looked_at:
        yield f"not looked at: {text}"


def _staged(staged: StagedBy) -> str:
    if not staged.branch:
        return f"on a branch that is not known, when a run looked at {staged.as_of:%Y-%m-%d %H:%M} UTC"
    return f"on {staged.branch} as {staged.path}" + (f", token {staged.token}" if staged.token else "")


def _commit(commit: NamedBy) -> str:
    date = "date not known" if commit.created_at is None else f"{commit.created_at:%Y-%m-%d}"
    text = f"{commit.commit_id[:12]} ({date})"
    if commit.paths:
        text += f" as {', '.join(commit.paths)}"
    return "; ".join([text, *_keepers(commit)])


def _unnamed(item: UnnamedBy) -> str:
    text = f"{item.metarange_id[:12]} (written {item.written_at:%Y-%m-%d})"
    if item.paths:
        text += f" as {', '.join(item.paths)}"
    until = "the next complete run" if item.until is None else f"{item.until:%Y-%m-%d %H:%M} UTC"
    return f"{text}; no active commit names it: runs count it as one until {until}"


def _keepers(commit: NamedBy) -> Iterator[str]:
    if commit.heads:
        others = f" and {len(commit.heads) - 3:,} more" if len(commit.heads) > 3 else ""
        yield f"head of {', '.join(commit.heads[:3])}{others}"
    elif commit.branches:
        more = commit.num_branches - len(commit.branches)
        yield f"on {', '.join(commit.branches)}" + (f" and {more:,} more" if more > 0 else "")
    if commit.tags:
        yield f"tag {', '.join(commit.tags)}"
    for name in commit.policies:
        yield f"policy: {name}"
    if commit.rule:
        yield commit.rule + ("" if commit.until is None else f": until {commit.until:%Y-%m-%d %H:%M} UTC")
    elif commit.until is not None and not commit.active:
        yield f"expired {commit.until:%Y-%m-%d}"


def _judged(judged: Judged) -> str:
    when = f"{judged.run_id} ({judged.at:%Y-%m-%d %H:%M} UTC)"
    if judged.outcome == "deleted":
        text = f"{when} deleted it as {judged.reason}: {judged.why}"
        if judged.approved_by:
            text += f"; approved by {judged.approved_by} ({judged.approved_at:%Y-%m-%d %H:%M} UTC)"
        if not judged.restorable:
            return text
        where = "below a delete marker" if judged.restorable == "versions" else "in the run's quarantine"
        text += f"; it is still {where}, and `dredge gc restore` brings it back"
        if judged.restorable_until is not None:
            text += f" at least until {judged.restorable_until:%Y-%m-%d}, unless it is purged before"
        return text
    if judged.outcome:
        return f"{when} left it ({judged.outcome}): {judged.why}"
    if judged.hold:
        return f"{when} holds it ({judged.hold}): {judged.why}"
    return f"{when} found it to be garbage ({judged.reason}): {judged.why}"
