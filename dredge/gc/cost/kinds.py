"""Kinds of objects: each listed object is of exactly one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

HEAD, STAGED, OLD, DANGLING, TAGS, POLICY = (1 << bit for bit in range(6))
"""What names an object, as bits: a branch head, staging, an active commit that is no head, one that no ref leads to, a
tag's commit, a commit or path that a policy keeps; the last two only where no rule of the repository keeps it."""

HEADS, STAGING, HISTORY, NO_REF = "heads", "staged", "history", "no_ref"
TAGS_ONLY, POLICY_ONLY, TAGS_AND_POLICY = "tags", "policy", "tags_and_policy"
GARBAGE, HELD, YOUNG, DELETED = "garbage", "held", "young", "deleted"

KINDS = {
    HEADS: "in the head of a branch",
    STAGING: "staged on a branch, in no head",
    HISTORY: "only in older commits that the rules keep",
    NO_REF: "only in commits that no branch and no tag leads to, and that the rules keep",
    TAGS_ONLY: "only because a tag names its commit",
    POLICY_ONLY: "only because of the retention policy",
    TAGS_AND_POLICY: "only because of a tag and of the retention policy",
    GARBAGE: "garbage: the next run that deletes takes it",
    HELD: "garbage, but held back by a guard",
    DELETED: "garbage that this run deleted",
    YOUNG: "too young to be judged",
}
"""Every kind, with a sentence for people. The first seven are live."""
LIVE = (HEADS, STAGING, HISTORY, NO_REF, TAGS_ONLY, POLICY_ONLY, TAGS_AND_POLICY)


def kind_of(bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """The index in `LIVE` of the kind of each object, by the bits of what names it; -1 for none."""
    return np.select(
        [
            bits & HEAD > 0,
            bits & STAGED > 0,
            bits & OLD > 0,
            bits & DANGLING > 0,
            bits & (TAGS | POLICY) == TAGS,
            bits & (TAGS | POLICY) == POLICY,
            bits & (TAGS | POLICY) > 0,
        ],
        list(range(len(LIVE))),
        -1,
    )
