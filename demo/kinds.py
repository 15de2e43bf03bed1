"""Every kind of garbage, and every kind of live object that resembles it, one function each."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import lakefs_sdk

from demo.lake import Lake, make_content

ODD_NAMES = (
    "odd/a b",
    "odd/a+b",
    "odd/100%25",
    "odd/ümläut-éà",
    "odd/emoji-\U0001f9ca",
    "odd/quote'\"&<>",
    "odd/comma,semi;",
    "odd/trailing/",
    "odd/double//slash",
    "odd/hash#query?x=1",
)


def paths(folder: str, count: int) -> list[str]:
    """Name objects of a folder in order."""
    return [f"{folder}/{index:05d}.bin" for index in range(count)]


def committed(lake: Lake, count: int) -> None:
    """Plant plain committed objects, in several commits."""
    for part in range(3):
        addresses = lake.upload_many("main", paths(f"tables/part{part}", count // 3))
        lake.plant(addresses, "committed", True, "in the head commit of main")
        lake.commit("main", f"part {part}", age_days=20 - part)


def expired(lake: Lake, count: int) -> None:
    """Plant objects in commits older than the retention rules only."""
    old = paths("old", count)
    addresses = lake.upload_many("main", old)
    lake.commit("main", "old data", age_days=80)
    lake.delete("main", old)
    lake.commit("main", "old data deleted", age_days=60)
    lake.upload("main", "old/marker", b"the branch continues\n")
    lake.commit("main", "the branch continues", age_days=45)
    lake.plant(addresses, "expired commit", False, "only a commit beyond the retention of 30 days used it")
    lake.plant([lake.address("main", "old/marker")], "committed", True, "in the head commit of main")


def dangling(lake: Lake, count: int) -> None:
    """Plant objects in old commits without a ref."""
    lake.branch("abandoned")
    addresses = lake.upload_many("abandoned", paths("abandoned", count))
    lake.commit("abandoned", "never merged", age_days=50)
    lake.sdk.branches_api.delete_branch(lake.repository, "abandoned")
    lake.plant(addresses, "dangling commit", False, "its branch is deleted and the commit is 50 days old")


def tagged(lake: Lake, count: int) -> None:
    """Plant objects in a tag's old commit only."""
    lake.branch("released")
    addresses = lake.upload_many("released", paths("released", count))
    commit = lake.commit("released", "release 1", age_days=70)
    lake.sdk.tags_api.create_tag(lake.repository, lakefs_sdk.TagCreation(id="v1.0", ref=commit))
    lake.sdk.branches_api.delete_branch(lake.repository, "released")
    lake.plant(addresses, "tagged", True, "tag v1.0 names its commit, 70 days old")


def hidden(lake: Lake, count: int) -> None:
    """Plant objects on a hidden branch: staged and committed ones."""
    lake.branch("shadow", hidden=True)
    addresses = lake.upload_many("shadow", paths("shadow/committed", count))
    lake.commit("shadow", "on a hidden branch", age_days=3)
    addresses += lake.upload_many("shadow", paths("shadow/staged", count))
    lake.plant(addresses, "hidden branch", True, "used by a branch that plain listings do not show")


def staged(lake: Lake, count: int) -> None:
    """Plant uncommitted objects, some of them over committed ones."""
    lake.branch("work")
    addresses = lake.upload_many("work", paths("work", count))
    addresses += lake.upload_many("work", paths("tables/part0", 20), salt="changed on work")
    lake.plant(addresses, "staged", True, "uncommitted on branch work")


def overwritten(lake: Lake, count: int) -> None:
    """Plant staged objects that a second upload replaced before any commit."""
    targets = paths("overwritten", count)
    first = lake.upload_many("work", targets, salt="first")
    second = lake.upload_many("work", targets, salt="second")
    lake.plant(first, "staged, overwritten", False, "replaced by a second upload before a commit")
    lake.plant(second, "staged", True, "uncommitted on branch work")


def deleted(lake: Lake, count: int) -> None:
    """Plant staged objects that were deleted again, and committed ones deleted only on a branch."""
    targets = paths("deleted", count)
    gone = lake.upload_many("work", targets)
    lake.delete("work", targets)
    lake.plant(gone, "staged, deleted", False, "deleted before it was committed")
    lake.delete("work", paths("tables/part1", 20))


def reset(lake: Lake, count: int) -> None:
    """Plant objects of a reset branch."""
    lake.branch("scratch")
    gone = lake.upload_many("scratch", paths("scratch", count))
    lake.reset("scratch")
    lake.plant(gone, "branch reset", False, "the branch was reset before a commit")


def branch_deleted(lake: Lake, count: int) -> None:
    """Plant staged objects of a deleted branch."""
    lake.branch("short-lived")
    gone = lake.upload_many("short-lived", paths("short", count))
    lake.sdk.branches_api.delete_branch(lake.repository, "short-lived")
    lake.plant(gone, "branch deleted", False, "uncommitted on a branch that was deleted")


def never_linked(lake: Lake, count: int) -> None:
    """Plant uploads to handed-out addresses: some linked, some never."""
    for index, path in enumerate(paths("direct", count)):
        place = lake.sdk.staging_api.get_physical_address(lake.repository, "work", path)
        key = lake.relative(place.physical_address)
        content = make_content(path, "direct")
        lake.store.put(key, content)
        if index % 4:
            lake.plant([key], "never linked", False, "uploaded to a handed-out address, never linked")
            continue
        metadata = lakefs_sdk.StagingMetadata(
            staging=place, checksum=hashlib.md5(content).hexdigest(), size_bytes=len(content)
        )
        lake.sdk.staging_api.link_physical_address(lake.repository, "work", path, metadata)
        lake.plant([key], "linked", True, "uploaded to a handed-out address and linked")


def orphans(lake: Lake, count: int) -> None:
    """Plant objects below data/ unknown to lakeFS, in plain, sharded and slice-less paths."""
    some_slice = next(iter(lake.planted.values())).address.split("/")[1]
    keys = [f"data/{some_slice}/orphan{index:05d}" for index in range(count)]
    keys += ["data/plain-orphan", "data/!ab/c/sharded-orphan", "data/not-an-xid/orphan"]
    for key in keys:
        lake.store.put(key, make_content(key))
    lake.plant(keys, "orphan", False, "put straight into the store, unknown to lakeFS")


def copied(lake: Lake, count: int) -> None:
    """Plant copies, metadata updates and odd names: live, each in its own way."""
    sources = paths("tables/part2", count)
    copies = []
    for path in sources:
        creation = lakefs_sdk.ObjectCopyCreation(src_path=path)
        copy = lake.sdk.objects_api.copy_object(lake.repository, "work", f"copies/{path}", creation)
        copies.append(lake.relative(copy.physical_address))
    lake.plant(copies, "copied", True, "a copy, uncommitted on branch work")
    touched = lake.upload_many("work", paths("touched", count))
    for path in paths("touched", count):
        update = lakefs_sdk.UpdateObjectUserMetadata(set={"owner": "demo"})
        with suppress(ValueError):  # the SDK expects 201 where the server answers 204
            lake.sdk.experimental_api.update_object_user_metadata(lake.repository, "work", path, update)
    lake.plant(touched, "metadata updated", True, "staged, then its metadata changed")
    odd = [lake.upload("work", name, make_content(name)) for name in ODD_NAMES]
    lake.plant(odd, "odd names", True, "staged under a name with odd characters")


def identical(lake: Lake, count: int) -> None:
    """Plant the same bytes again over committed objects: live on their branch, yet in no prepare answer."""
    lake.branch("twins")
    targets = paths("tables/part1", count)
    again = lake.upload_many("twins", targets)
    lake.plant(
        again, "identical, uploaded again", True, "branch twins serves it; the server's answer omits it"
    )
    creation = lakefs_sdk.CommitCreation(message="nothing new")
    with suppress(
        lakefs_sdk.exceptions.BadRequestException
    ):  # "no changes": the token stays on the branch, sealed
        lake.sdk.commits_api.commit(lake.repository, "twins", creation)


def identical_committed(lake: Lake, count: int) -> None:
    """Plant the same bytes uploaded again and then committed: the commit keeps the old address."""
    lake.branch("settled")
    targets = paths("tables/part0", count)
    again = lake.upload_many("settled", targets)
    marker = lake.upload("settled", "settled/marker", b"something new\n")
    lake.commit("settled", "identical content keeps its first address", age_days=1)
    lake.plant(again, "identical, then committed", False, "the commit kept the first upload's address")
    lake.plant([marker], "committed", True, "in the head commit of settled")


@contextmanager
def young(lake: Lake, count: int, min_age_seconds: float) -> Iterator[None]:
    """Plant new uploads without a reference, and repeat them while the block runs, so that they stay young.

    Args:
        lake: with everything else.
        count: of objects.
        min_age_seconds: of the run in the block, which may start late on a busy machine.
    """
    uploads = {}
    for path in paths("young", count):
        place = lake.sdk.staging_api.get_physical_address(lake.repository, "work", path)
        uploads[lake.relative(place.physical_address)] = make_content(path)
    done = threading.Event()

    def upload() -> None:
        for key, content in uploads.items():
            lake.store.put(key, content)

    def go_on() -> None:
        while not done.wait(min_age_seconds / 4):
            upload()

    upload()
    lake.plant(uploads, "young", True, "younger than the minimum age: an upload may still be linked")
    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


KINDS: tuple[tuple[Callable[[Lake, int], None], int], ...] = (
    (expired, 120),
    (committed, 1200),
    (dangling, 120),
    (tagged, 60),
    (hidden, 40),
    (staged, 300),
    (overwritten, 120),
    (deleted, 120),
    (reset, 120),
    (branch_deleted, 120),
    (never_linked, 80),
    (orphans, 60),
    (copied, 40),
    (identical, 60),
    (identical_committed, 60),
)


def plant_all(lake: Lake, scale: float = 1.0) -> None:
    """Plant every kind but the young ones.

    Args:
        lake: an empty lake.
        scale: factor on the number of objects of each kind (minimum 6, or 60 for plain committed ones).
    """
    for plant, count in KINDS:
        plant(lake, max(60 if plant is committed else 6, round(count * scale)))
