"""Claims on designs 1 and 2: staging in the object store, reference counters."""

from __future__ import annotations

from tests.simulation.proposals import counter, lake
from tests.simulation.proposals import staging_in_store as store
from tests.simulation.proposals.catalogue import LEAK, LOSS, NOTHING, Chapter, Claim
from tests.simulation.proposals.counter import Design, Place
from tests.simulation.proposals.explorer import Scene
from tests.simulation.proposals.lake import Branch, losses
from tests.simulation.proposals.world import Actor, World


def _store_scene(world: World, **actors: Actor) -> Scene:
    return Scene(world, actors, store.troubles, at_rest=store.leaks)


def _with_dev(world: World) -> World:
    world.kv["branch/dev"] = Branch("c0", "d1")
    return world


def commit_beside_write() -> Scene:
    return _store_scene(
        store.world(x="1"),
        Writer=lambda: store.upload("main", "x", "2"),
        Committer=lambda: store.commit("main", "c1", "t2"),
    )


def commit_beside_new_key() -> Scene:
    return _store_scene(
        store.world(),
        Writer=lambda: store.upload_new("main", "x", "2", "w"),
        Committer=lambda: store.commit("main", "c1", "t2"),
    )


def delete_branch_beside_write() -> Scene:
    return _store_scene(
        store.world(),
        Writer=lambda: store.upload("main", "x", "2"),
        Remover=lambda: store.delete_branch("main"),
    )


def delete_branch_beside_ingest() -> Scene:
    world = store.world()
    world.objects.update(lake.world(objects=("outside/a",)).objects)
    return _store_scene(
        world,
        Importer=lambda: store.link("main", "x", "outside/a"),
        Remover=lambda: store.delete_branch("main"),
    )


def delete_branch_beside_link() -> Scene:
    return _store_scene(
        _with_dev(store.world(x="1")),
        Linker=lambda: store.link("dev", "y", "main/t1/x"),
        Remover=lambda: store.delete_branch("main"),
    )


STAGING_IN_STORE = Chapter(
    "1",
    "Staged data in the object store, on a defined path",
    "There is no staging area but the objects below `<branch>/<token>/`. A commit lists them; deleting a branch "
    "deletes them.",
    (
        Claim(
            "store-commit",
            "Blocker 1",
            "A write that ends after the commit has read its object changes committed data.",
            commit_beside_write,
            frozenset({LOSS}),
            "The address of the object is its path, so the late write lands on what the commit names.",
        ),
        Claim(
            "store-new-key",
            "Open 1",
            "How can data be kept from changing after the commit? With a key of its own for each upload, written only "
            "where nothing is (If-None-Match), and another look at the token.",
            commit_beside_new_key,
            frozenset({LEAK}),
            "Nothing committed changes any more. But the path is no longer defined, and an upload that comes late "
            "leaves an object below a token that nobody has.",
        ),
        Claim(
            "store-delete-branch",
            "beyond",
            "Deleting a branch deletes every object below its token.",
            delete_branch_beside_write,
            frozenset({LEAK}),
            "A write on its way lands after the listing, below a token that nobody will list again.",
        ),
        Claim(
            "store-ingest",
            "Open 2",
            "How is ingested data managed? As an object that points outside.",
            delete_branch_beside_ingest,
            frozenset({LEAK}),
            "The data outside stays in every order, as the document assumes. Only the pointer can leak, as any late "
            "write. What is open is the format, not an order of steps.",
        ),
        Claim(
            "store-link",
            "Open 3",
            "How are symlinks and stageObject handled? As an object that points to another one.",
            delete_branch_beside_link,
            frozenset({LOSS}),
            "A pointer does not keep what it points to: the branch that has the object deletes it. It takes no race.",
        ),
        Claim(
            "store-listing",
            "Performance",
            "Listing staged objects in the store takes five times as long as in the key-value store.",
            None,
            NOTHING,
            "About cost: no order of steps shows it.",
        ),
    ),
)


def link_beside_delete(place: Place) -> Scene:
    design = Design(place)
    return Scene(
        counter.world(design, 1, x="data/a"),
        {
            "Linker": lambda: counter.link(design, "y", "data/a"),
            "Deleter": lambda: counter.delete(design, "x"),
        },
        losses,
        at_rest=lake.leaks,
    )


def delete_twice(claim: bool) -> Scene:
    design = Design("sidecar", claim)
    return Scene(
        counter.world(design, 2, x="data/a", y="data/a"),
        {
            "Deleter 1": lambda: counter.delete(design, "x"),
            "Deleter 2": lambda: counter.delete(design, "x"),
        },
        losses,
        at_rest=lake.leaks,
    )


def delete_beside_reset() -> Scene:
    design = Design("sidecar", claim=True)
    world = _with_dev(counter.world(design, 2, x="data/a"))
    world.kv["staged/d1/y"] = lake.entry("data/a")
    return Scene(
        world,
        {"Deleter": lambda: counter.delete(design, "x"), "Resetter": lambda: counter.reset(design, "t2")},
        losses,
        at_rest=lake.leaks,
    )


def delete_beside_commit(look_again: bool) -> Scene:
    design = Design("sidecar", claim=True, look_again=look_again)
    return Scene(
        counter.world(design, 1, x="data/a"),
        {
            "Deleter": lambda: counter.delete(design, "x"),
            "Committer": lambda: lake.commit("main", "c1", "t2"),
        },
        losses,
        at_rest=lake.leaks,
    )


def answer_lost() -> Scene:
    design = Design("sidecar", claim=True)
    return Scene(
        counter.world(design, 2, x="data/a", y="data/a"),
        {"Deleter": lambda: counter.delete(design, "x")},
        losses,
        at_rest=lake.leaks,
        lost_answers=1,
    )


def crash(entry_first: bool) -> Scene:
    design = Design("sidecar", claim=True, entry_first=entry_first)
    return Scene(
        counter.world(design, 1, x="data/a"),
        {"Deleter": lambda: counter.delete(design, "x")},
        lambda world: (),
        at_rest=lambda world, ends: [*losses(world), *lake.leaks(world)],
        crashes=1,
    )


COUNTER = Chapter(
    "2",
    "A reference counter on the object's metadata",
    "Whoever stages an address counts up, whoever removes an entry counts down, and whoever comes to zero deletes "
    "the object.",
    (
        Claim(
            "counter-s3",
            "Blocker 1",
            "AWS cannot set metadata under a condition.",
            lambda: link_beside_delete("s3"),
            frozenset({LOSS}),
            "Both read 1. The linker's 2 is overwritten by the deleter's 0.",
        ),
        Claim(
            "counter-s3-etag",
            "today",
            "S3 compares ETags when it writes (PUT since 2024, COPY since 2025).",
            lambda: link_beside_delete("s3-etag"),
            frozenset({LOSS}),
            "The ETag follows from the bytes. A copy with other metadata leaves it as it is, so If-Match sees nothing.",
        ),
        Claim(
            "counter-metadata",
            "Azure, Google",
            "Azure and Google set metadata under a condition.",
            lambda: link_beside_delete("metadata"),
            NOTHING,
            "Nobody overwrites a number that he has not read.",
        ),
        Claim(
            "counter-sidecar",
            "today",
            "An object beside it holds the number, and is written with If-Match.",
            lambda: link_beside_delete("sidecar"),
            NOTHING,
            "The named blocker is gone on S3, too. What follows is not.",
        ),
        Claim(
            "counter-kv",
            "today",
            "The counter in the key-value store, set with setIf.",
            lambda: link_beside_delete("kv"),
            NOTHING,
            "The same as the object beside it: it is one more conditional cell. All that follows holds for it, too.",
        ),
        Claim(
            "counter-delete-twice",
            "beyond",
            "Delete object, twice at the same time.",
            lambda: delete_twice(claim=False),
            frozenset({LOSS}),
            "Both saw the entry, both count down: the other path's reference is gone.",
        ),
        Claim(
            "counter-delete-claimed",
            "beyond",
            "The same, and only who removed the entry as it was read counts down.",
            lambda: delete_twice(claim=True),
            NOTHING,
            "The entry has to be removed under a condition, which the flow does not say.",
        ),
        Claim(
            "counter-reset",
            "beyond",
            "Reset branch drops its entries one by one, a deletion goes on beside it.",
            delete_beside_reset,
            frozenset({LOSS}),
            "An unconditional drop counts down for an entry that somebody else has removed and counted.",
        ),
        Claim(
            "counter-commit",
            "beyond",
            "A deletion goes on beside a commit.",
            lambda: delete_beside_commit(look_again=False),
            frozenset({LOSS}),
            "Entry and counter are right, each for itself; that the token is sealed and read already is in neither.",
        ),
        Claim(
            "counter-commit-look",
            "beyond",
            "The same, and the token is looked at again before counting.",
            lambda: delete_beside_commit(look_again=True),
            frozenset({LEAK}),
            "Nothing is lost. But when the commit did not get the entry either, nobody counts it down.",
        ),
        Claim(
            "counter-answer",
            "beyond",
            "The answer to a conditional write gets lost, and it is done again.",
            answer_lost,
            frozenset({LOSS}),
            "A number does not say who counted: one reference is taken away twice.",
        ),
        Claim(
            "counter-crash",
            "beyond",
            "A server dies between the entry and the counter.",
            lambda: crash(entry_first=True),
            frozenset({LEAK}),
            "The number stays too high for ever.",
        ),
        Claim(
            "counter-crash-other-order",
            "beyond",
            "The same, and the counter goes first.",
            lambda: crash(entry_first=False),
            frozenset({LOSS}),
            "Then the entry stays and its object is gone. No order of two writes is right.",
        ),
        Claim(
            "counter-cost",
            "Cost",
            "One more read of metadata, and perhaps a write, for each operation.",
            None,
            NOTHING,
            "About cost: no order of steps shows it.",
        ),
    ),
)
