"""The answer to "why is this object here?"."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from dredge.gc.explain.target import Target

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
        sealed: whether a commit has sealed the token, and failed or is at work; the branch may show something else.
    """

    branch: str
    path: str = ""
    token: str = ""
    as_of: datetime | None = None
    sealed: bool = False


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
