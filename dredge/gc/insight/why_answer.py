"""The question and the answer of `dredge gc why`: the object, the references to it, the verdict, and the text."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct, field

from dredge.errors import ConfigError, DredgeError, NotFoundError
from dredge.gc.check_limits import keys_in_store
from dredge.gc.namespaces import DATA, canonical_namespace
from dredge.lakefs import LakeFSClient
from dredge.lakefs.files.addresses import AddressType, answer_readings, canonical_address
from dredge.runs.report import size_text
from dredge.storage import StorageOptions, open_reader

LAKEFS = "lakefs://"


class Target(Struct, frozen=True):
    """An object of a repository."""

    repository: str
    namespace: str  # URI of its storage namespace
    address: str  # key relative to the namespace
    ref: str = ""  # in the question; "" for a question with an address
    path: str = ""


def find_target(
    client: LakeFSClient, given: str, repository: str | None = None, options: StorageOptions | None = None
) -> Target:
    """Find the object in question, given by `lakefs://repo/ref/path`, a URI in the store, or an address of a
    repository. Raises ConfigError: another format, or an address outside every repository's namespace; NotFoundError:
    no such path in the ref, or no such repository."""
    if given.startswith(LAKEFS):
        return _of_path(client, given, options)
    if repository is not None:
        found = client.repository(repository)
        return Target(found.name, found.namespace, _key(given, found.namespace))
    if "://" not in given:
        raise ConfigError(f"{given!r} names no repository: add --repository, or give a complete URI")
    inside = [
        item
        for item in client.repositories()
        if canonical_namespace(given).startswith(canonical_namespace(item.namespace))
    ]
    if not inside:
        raise ConfigError(f"{given} is in the storage namespace of no repository of this server")
    owner = max(inside, key=lambda item: len(canonical_namespace(item.namespace)))
    return Target(owner.name, owner.namespace, _key(given, owner.namespace))


def _of_path(client: LakeFSClient, given: str, options: StorageOptions | None) -> Target:
    name, _, rest = given.removeprefix(LAKEFS).partition("/")
    ref, _, path = rest.partition("/")
    if not (name and ref and path):
        raise ConfigError(f"{given!r} is not of the form lakefs://repository/ref/path")
    found = client.repository(name)
    shown = client.stat(name, ref, path)
    keys = answer_readings(shown.address, found.namespace)
    if not keys:
        raise NotFoundError(
            f"{given} is at {shown.address}, outside the storage namespace {found.namespace}: no run deletes it"
        )
    return Target(name, found.namespace, _meant(found.namespace, keys, shown.size_bytes, options), ref, path)


def _meant(namespace: str, keys: Sequence[str], size_bytes: int, options: StorageOptions | None) -> str:
    """The key of a server's answer: a key in the store with the size in the answer."""
    reader = open_reader(namespace, options)
    try:
        there = keys_in_store(reader, keys)
        if len(there) > 1:
            there = [key for key in there if reader.stat(key).size == size_bytes] or there
    except DredgeError:
        there = []  # `why` reports the unreadable store
    return next(iter(there), keys[0])


def _key(given: str, namespace: str) -> str:
    key = canonical_address(given, AddressType.FULL, namespace) if "://" in given else given
    if key is None:
        raise ConfigError(f"{given} is not below {namespace}")
    if not key.startswith(DATA):
        raise ConfigError(f"{key!r} is not below {DATA}: no run deletes it")
    return key


KEPT, GARBAGE, DELETED, MISSING, ABSENT = "kept", "garbage", "deleted", "missing", "absent"
UNKNOWN = "unknown"
STORE, COMMITS = "the store", "commits"
VERDICTS = {
    KEPT: "it stays",
    GARBAGE: "no reason to keep it was found",
    DELETED: "deleted by a run",
    MISSING: "referenced, but missing in the store",
    ABSENT: "not in the store, and no reference was found",
    UNKNOWN: "unknown: a source of references, or the store, could not be read",
}


class StagedBy(Struct, frozen=True):
    """A branch with the object in its staging area."""

    branch: str  # its name; "" for an unknown branch, from a run
    path: str = ""  # of the entry; "" when unknown
    token: str = ""  # staging token; "" without the key-value store
    as_of: datetime | None = None  # time of the run, for a staged entry in the past
    # whether a commit has sealed the token, and failed or is in progress; the branch may show another entry
    sealed: bool = False


class NamedBy(Struct, frozen=True):
    """A commit with the object."""

    commit_id: str
    created_at: datetime | None  # its date; None when unknown
    active: bool  # whether it keeps the object
    paths: tuple[str, ...] = ()  # of the object; () when its ranges were not decoded
    heads: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()  # some branches with the commit in their line
    num_branches: int = 0
    tags: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()  # matching rules of the retention policy
    # expiry under the repository's rules, for a commit behind a head; None for never, or without a matching
    # rule
    until: datetime | None = None
    rule: str = ""  # the repository's rule with the latest expiry; "" for none


class UnnamedBy(Struct, frozen=True):
    """A metarange with the object and without an active commit; runs count it as an active commit."""

    metarange_id: str
    written_at: datetime
    until: datetime | None  # end of the time as an active commit; None when the next complete mark decides
    paths: tuple[str, ...] = ()  # of the object; () when its ranges were not decoded


class Judged(Struct, frozen=True):
    """The result of a run for the object."""

    run_id: str
    at: datetime  # time of the plan, or end of the sweep
    reason: str
    outcome: str  # in the ledger; "" for a run without deletions
    hold: str  # the code of the hold; "" for none
    why: str  # a sentence about reason, hold or error
    version_id: str = ""  # of the delete marker in a bucket with versions, above the old version; "" for none
    approved_by: str = ""  # approver of the run; "" without an approval
    approved_at: datetime | None = None  # time of the approval; None without one
    restorable: str = ""  # "versions" or "quarantine" for a restorable object; "" otherwise
    # earliest removal of the old version or copy by a purge or a lifecycle rule; None without one
    restorable_until: datetime | None = None


class PinnedBy(Struct, frozen=True):
    """A pin on the object, from a restore."""

    pin_id: str
    run_id: str  # the run with the deletion
    reason: str
    until: datetime


class Answer(Struct):
    """All findings about an object."""

    target: Target
    size_bytes: int | None = None  # None for an object missing in the store
    last_modified: datetime | None = None
    young_until: datetime | None = None  # end of the minimum age; None for an old object
    staged: list[StagedBy] = field(default_factory=list)  # branches with the object staged
    # with the object, keeping commits first, the newest first
    commits: list[NamedBy] = field(default_factory=list)
    unnamed: list[UnnamedBy] = field(default_factory=list)  # metaranges without an active commit that keep it
    pins: list[PinnedBy] = field(default_factory=list)  # active pins on it
    # other repositories with the object, by the newest run
    referring: list[str] = field(default_factory=list)
    judged: Judged | None = None  # by the newest run with this candidate
    not_read: list[str] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)

    @property
    def is_named(self) -> bool:
        """Whether staging, an active commit, a metarange counted as an active commit or another repository has it."""
        return bool(self.staged or self.unnamed or self.referring) or any(
            commit.active for commit in self.commits
        )

    @property
    def verdict(self) -> str:
        """A key of `VERDICTS`."""
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
    """Format an answer: the verdict first, then every reason, then the unread sources."""
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
    yield from (f"referring repository {name} used it during the newest run" for name in answer.referring)
    for pin in answer.pins:
        until = f"{pin.until:%Y-%m-%d %H:%M} UTC"
        yield f"pinned    restored after its deletion by run {pin.run_id}, until {until}: {pin.reason}"
    if answer.young_until is not None:
        yield f"young     no candidate before {answer.young_until:%Y-%m-%d %H:%M} UTC"
    if answer.judged is not None:
        yield f"run       {_judged(answer.judged)}"
    expired = [commit for commit in answer.commits if not commit.active]
    if expired:
        newest = expired[0]
        yield f"expired   {_commit(newest)}; {len(expired):,} expired commits in all, which do not keep it"
    for text in answer.not_read:
        yield f"not read: {text}"


def _staged(staged: StagedBy) -> str:
    if not staged.branch:
        return f"on an unknown branch, in a run at {staged.as_of:%Y-%m-%d %H:%M} UTC"
    text = f"on {staged.branch} as {staged.path}" + (f", token {staged.token}" if staged.token else "")
    return f"{text}, sealed by a commit: the branch may show another entry" if staged.sealed else text


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
    return f"{text}; without an active commit: runs count it as an active commit until {until}"


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
        text += f"; it is still {where}, and `dredge gc restore` restores it"
        if judged.restorable_until is not None:
            text += f" until {judged.restorable_until:%Y-%m-%d} at least, or until an earlier purge"
        return text
    if judged.outcome:
        return f"{when} kept it ({judged.outcome}): {judged.why}"
    if judged.hold:
        return f"{when} holds it ({judged.hold}): {judged.why}"
    return f"{when} found it to be garbage ({judged.reason}): {judged.why}"
