"""Claims on designs 3 and 4: tracked references, states of tokens."""

from __future__ import annotations

from tests.simulation.proposals import lake, token_states, tracking
from tests.simulation.proposals.catalogue import LEAK, LOSS, NOTHING, Chapter, Claim
from tests.simulation.proposals.explorer import Scene
from tests.simulation.proposals.lake import Branch, Commit, losses
from tests.simulation.proposals.token_states import Tokens
from tests.simulation.proposals.tracking import TBD, Reference
from tests.simulation.proposals.world import Flow, World, after, put, within

OLD, NOW = 0, 3
LATER = NOW + TBD + 2


def _tracked(**staged: str) -> World:
    references = {f"{address}/t1": Reference("staged", OLD) for address in staged.values()}
    world = tracking.world(references=references, objects=tuple(staged.values()), **staged)
    world.now = NOW
    return world


def overrides() -> Scene:
    return Scene(
        _tracked(x="data/a"),
        {
            "Writer 1": lambda: tracking.upload("main", "x", "data/b"),
            "Writer 2": lambda: tracking.upload("main", "x", "data/c"),
        },
        losses,
        later=(
            ("reset", lambda: tracking.reset("main", "t2")),
            ("job", lambda: tracking.job("data/a", "data/b", "data/c", since=LATER)),
        ),
        at_rest=lake.leaks,
    )


def late_link() -> Scene:
    def client() -> Flow[str]:
        expires = yield from tracking.get_physical_address("main", "data/a")
        yield put("data/a", lake.body_of("data/a"))
        return (yield from tracking.link("main", "x", "data/a", expires))

    return Scene(
        _tracked(),
        {"Client": client, "Job": lambda: tracking.job("data/a", since=NOW + TBD + 1)},
        losses,
        later=(("job", lambda: tracking.job("data/a", since=LATER + TBD)),),
        at_rest=lake.leaks,
        hours=TBD + 1,
    )


def oldest_reference(oldest: bool) -> Scene:
    world = _tracked(x="data/a")
    world.kv["branch/dev"] = Branch("c0", "d1")
    world.kv["references/data/a/d1"] = Reference("deleted", OLD)
    return Scene(
        world,
        {
            "Copier": lambda: within(tracking.copy("main", "x", "dev", "y"), NOW + TBD),
            "Deleter": lambda: after(
                lambda: tracking.delete("main", "x"),
                lambda: tracking.job("data/a", oldest=oldest),
                lambda: tracking.job("data/a", oldest=oldest),
            ),
        },
        losses,
        later=(
            ("reset", lambda: tracking.reset("dev", "d2")),
            ("job", lambda: tracking.job("data/a", since=LATER + TBD, oldest=oldest)),
        ),
        at_rest=lake.leaks,
        hours=TBD + 1,
    )


def same_token() -> Scene:
    return Scene(
        _tracked(x="data/a"),
        {
            "User": lambda: after(
                lambda: tracking.copy("main", "x", "main", "y"),
                lambda: tracking.delete("main", "x"),
                lambda: tracking.job("data/a", since=LATER),
            )
        },
        losses,
    )


def copy_of_committed() -> Scene:
    world = lake.world(objects=("data/a",), head="c1", c1=Commit("c0", (("x", lake.entry("data/a")),)))
    return Scene(
        world,
        {
            "User": lambda: after(
                lambda: tracking.copy("main", "x", "main", "y"),
                lambda: tracking.reset("main", "t2"),
                lambda: tracking.job("data/a", since=LATER),
            )
        },
        losses,
    )


def tracked_commit_dies() -> Scene:
    return Scene(
        _tracked(x="data/a"),
        {"Committer": lambda: tracking.commit("main", "c1", "t2")},
        losses,
        later=(
            ("reset", lambda: tracking.reset("main", "t3")),
            ("job", lambda: tracking.job("data/a", since=LATER)),
        ),
        at_rest=lake.leaks,
        crashes=1,
    )


def tracked_commit_beside_upload() -> Scene:
    return Scene(
        _tracked(x="data/a"),
        {
            "Writer": lambda: tracking.upload("main", "x", "data/b"),
            "Committer": lambda: tracking.commit("main", "c1", "t2"),
        },
        losses,
        later=(("job", lambda: tracking.job("data/a", "data/b", since=LATER)),),
        at_rest=lake.leaks,
    )


TRACKING = Chapter(
    "3",
    "References tracked in the staging manager",
    "A record for each address and staging token says staged, deleted or committed. A background job deletes what is "
    "deleted in all records for long enough.",
    (
        Claim(
            "tracking-overrides",
            "Open 1",
            "How are overrides dealt with?",
            overrides,
            frozenset({LEAK}),
            "Two writers replace the same entry; each lets go of what it saw, and nobody of what lost.",
        ),
        Claim(
            "tracking-tbd",
            "Open 2 (TBD)",
            "After some time an address cannot be referenced any more.",
            late_link,
            frozenset({LOSS, LEAK}),
            "The time is checked, then the entry is written: whatever the number, a request that takes longer loses. "
            "It holds only if a request cannot outlast it.",
        ),
        Claim(
            "tracking-oldest",
            "beyond",
            "`min(last_modified) < TBD`: the oldest of the records must be old.",
            lambda: oldest_reference(oldest=True),
            frozenset({LOSS}),
            "One record that was deleted long ago makes the age of the others count for nothing.",
        ),
        Claim(
            "tracking-newest",
            "beyond",
            "The same with the newest, and copies that end within that time.",
            lambda: oldest_reference(oldest=False),
            NOTHING,
            "The time must count from the last deletion.",
        ),
        Claim(
            "tracking-path",
            "beyond",
            "The key is address and token.",
            same_token,
            frozenset({LOSS}),
            "Two paths of one token share a record; deleting one deletes the other's object. It takes no race.",
        ),
        Claim(
            "tracking-committed",
            "beyond",
            "The records of a committed address are removed.",
            copy_of_committed,
            frozenset({LOSS}),
            "A copy of what is committed makes the first record anew, and a reset of it looks like the last. Design 4 "
            "names this. It takes no race.",
        ),
        Claim(
            "tracking-commit-dies",
            "beyond",
            "A commit marks its entries first.",
            tracked_commit_dies,
            frozenset({LEAK}),
            "What a commit that died has marked counts as committed for ever.",
        ),
        Claim(
            "tracking-commit-upload",
            "beyond",
            "An upload replaces an entry that a commit has marked already.",
            tracked_commit_beside_upload,
            frozenset({LEAK}),
            "The entry that was marked is not the one that is committed.",
        ),
    ),
)


def _tokens(**staged: str) -> World:
    references = {address: Tokens(("t1",)) for address in staged.values()}
    world = token_states.world(references=references, objects=tuple(staged.values()), **staged)
    world.kv["branch/dev"] = Branch("c0", "d1")
    return world


def override_in_token() -> Scene:
    return Scene(
        _tokens(x="data/a"),
        {
            "User": lambda: after(
                lambda: token_states.upload("main", "x", "data/b"),
                lambda: token_states.reset("main", "t2"),
                lambda: token_states.job(),
            )
        },
        losses,
        at_rest=lake.leaks,
    )


def copy_beside_job(keep_empty: bool) -> Scene:
    return Scene(
        _tokens(x="data/a"),
        {
            "Copier": lambda: token_states.copy("staged/t1/x", "dev", "y"),
            "Job": lambda: after(
                lambda: token_states.reset("main", "t2"), lambda: token_states.job(keep_empty=keep_empty)
            ),
        },
        losses,
    )


def upload_beside_commit() -> Scene:
    return Scene(
        _tokens(),
        {
            "Writer": lambda: token_states.upload("main", "x", "data/b"),
            "Committer": lambda: after(
                lambda: token_states.commit("main", "c1", "t2"), lambda: token_states.job()
            ),
        },
        losses,
    )


def copy_beside_reset() -> Scene:
    return Scene(
        _tokens(x="data/a"),
        {
            "Copier": lambda: token_states.copy("staged/t1/x", "dev", "y"),
            "Job": lambda: after(lambda: token_states.reset("dev", "d2"), lambda: token_states.job()),
        },
        losses,
        later=(
            ("reset main", lambda: token_states.reset("main", "t2")),
            ("reset dev", lambda: token_states.reset("dev", "d3")),
            ("job", token_states.job),
        ),
        at_rest=lake.leaks,
    )


def reset_dies() -> Scene:
    return Scene(
        _tokens(x="data/a"),
        {"Resetter": lambda: token_states.reset("main", "t2")},
        losses,
        later=(("job", token_states.job),),
        at_rest=lake.leaks,
        crashes=1,
    )


TOKEN_STATES = Chapter(
    "4",
    "States of staging tokens",
    "Each address has a list of the tokens that refer to it. Resets and commits put their tokens down, and a job "
    "takes these out of the lists; an empty list means deletion.",
    (
        Claim(
            "tokens-override",
            "Open 1 (TBD)",
            "How is an override in the same token handled?",
            override_in_token,
            frozenset({LEAK}),
            "The job finds addresses through the entries of the token, and the entry is gone. It takes no race.",
        ),
        Claim(
            "tokens-copy",
            "Assumption 1",
            "An empty list is a deletion on its way; no list is a commit.",
            lambda: copy_beside_job(keep_empty=False),
            frozenset({LOSS}),
            "No list is also a deletion that is over.",
        ),
        Claim(
            "tokens-copy-kept",
            "Assumption 1",
            "The same, and the empty list of a deleted address stays for ever.",
            lambda: copy_beside_job(keep_empty=True),
            NOTHING,
            "It holds, for a record for each object that was ever deleted.",
        ),
        Claim(
            "tokens-commit",
            "beyond",
            "What a committed token holds and the commit does not is deleted.",
            upload_beside_commit,
            frozenset({LOSS}),
            "A writer whose token was sealed under his hands stages again in the new one, an object that is gone.",
        ),
        Claim(
            "tokens-reset",
            "beyond",
            "A reference comes before its entry.",
            copy_beside_reset,
            frozenset({LEAK}),
            "The token is worked off between the two, and its reference stays in the list.",
        ),
        Claim(
            "tokens-reset-dies",
            "beyond",
            "A reset puts its token down when it is done.",
            reset_dies,
            frozenset({LEAK}),
            "Who dies before that leaves a token that nobody knows.",
        ),
    ),
)
