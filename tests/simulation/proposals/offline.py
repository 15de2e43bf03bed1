"""Dredge's offline protocol, with every rule as a switch; and the actions of others meanwhile.

lease → cutoff → listing → staging → commits → subtract → re-check (staging → commits) → delete, with a check of the
lease before each deletion. Hours are scaled: an address may be linked for one, a request takes at most one, and so
the minimum age is two (24, 1 and 25 in truth).
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tests.simulation.proposals import lake
from tests.simulation.proposals.lake import Branch, Commit, Entry
from tests.simulation.proposals.world import (
    KV,
    Flow,
    Object,
    RefusedError,
    Step,
    Then,
    World,
    delete_object,
    head,
    kv_delete_if,
    kv_drop,
    kv_get,
    kv_scan,
    kv_set_if,
    list_objects,
    put,
    read_clock,
    wait_until,
    within,
)

LINK_HOURS = 1
REQUEST_HOURS = 1
MIN_AGE_HOURS = LINK_HOURS + REQUEST_HOURS
LEASE_HOURS = 3
ROUNDS = 3
IN_PARTS = "in parts"
START = 10
"""The hour of a scene's beginning; its first objects were made at 0."""


@dataclass(frozen=True)
class Rules:
    """The rules; each may be left out."""

    lease: bool = True
    min_age: bool = True
    listing_first: bool = True
    staging_first: bool = True
    every_token: bool = True
    young_commits: bool = True
    heads: bool = True
    recheck: bool = True
    wait: bool = True


class Lease(NamedTuple):
    """The exclusive right to run."""

    holder: str
    until: int

    def __str__(self) -> str:
        return f"{self.holder} until {self.until}:00"


def world(**given: object) -> World:
    """A repository at hour START with old objects."""
    made = lake.world(**given)  # type: ignore[arg-type]
    made.now = START
    return made


# --- the collector ------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    rules: Rules
    lease: Lease | None
    cutoff: int
    listed: tuple[tuple[str, Object], ...]
    listed_at: int
    live: frozenset[str] = frozenset()
    settled: bool = False


def collect(rules: Rules, name: str = "A", *, requests: bool = True) -> Flow[object]:
    lease = (yield from take_lease(name)) if rules.lease else None
    began = yield read_clock()
    listed = (yield list_objects("data/")) if rules.listing_first else ()
    run = Run(rules, lease, began - MIN_AGE_HOURS, listed, (yield read_clock()) if requests else 0)
    return Then(run, lambda: mark(run, requests))


def mark(run: Run, requests: bool) -> Flow[object]:
    marked = run._replace(live=(yield from find_live(run)))
    follows = recheck if run.rules.recheck else sweep
    return Then((follows.__name__, marked), lambda: follows(marked, requests))


def recheck(run: Run, requests: bool) -> Flow[object]:
    settled = (yield from is_settled(run)) if requests else False
    checked = run._replace(live=run.live | (yield from find_live(run)), settled=settled)
    return Then(("sweep", checked), lambda: sweep(checked, requests))


def sweep(run: Run, requests: bool) -> Flow[object]:
    listed = run.listed if run.rules.listing_first else (yield list_objects("data/"))
    settled = run.settled or not (requests and run.rules.wait)
    if requests and not run.rules.recheck:
        settled = settled or (yield from is_settled(run))
    for key, found in listed:
        if found.meta == IN_PARTS and not settled:
            continue
        if key not in run.live and (found.born < run.cutoff or not run.rules.min_age):
            yield from delete_under(run.lease, key)
    if run.lease:
        yield kv_delete_if("lease", run.lease)
    return "collected"


def is_settled(run: Run) -> Flow[bool]:
    """Whether requests running during the listing are over."""
    now: int = yield read_clock()
    return now > run.listed_at + REQUEST_HOURS


def take_lease(name: str) -> Flow[Lease]:
    old = yield kv_get("lease")
    now = yield read_clock()
    lease = Lease(name, now + LEASE_HOURS)
    if (old and old.until >= now) or not (yield kv_set_if("lease", lease, old)):
        raise RefusedError("somebody else has the lease")
    return lease


def delete_under(lease: Lease | None, key: str) -> Flow[None]:
    """Delete an object; the request is over before the lease is."""
    if lease is None:
        yield delete_object(key)
        return
    if (yield kv_get("lease")) != lease or (yield read_clock()) > lease.until:
        raise RefusedError("the lease is lost")
    yield from within(_one(delete_object(key)), lease.until)


def _one(step: Step) -> Flow[Hashable]:
    answer: Hashable = yield step
    return answer


def find_live(run: Run) -> Flow[frozenset[str]]:
    rules = run.rules
    since = run.cutoff if rules.young_commits else None
    if not rules.staging_first:
        committed = yield from read_commits((), since)
        staged, _ = yield from read_staging(rules)
        return frozenset(committed | staged)
    staged, heads = yield from read_staging(rules)
    return staged | (yield from read_commits(heads if rules.heads else (), since))


def read_staging(rules: Rules) -> Flow[tuple[frozenset[str], frozenset[str]]]:
    """The addresses in all tokens of all branches, and the heads."""
    addresses: set[str] = set()
    heads: set[str] = set()
    read: set[str] = set()
    before = yield kv_scan("branch/")
    for _ in range(ROUNDS):
        heads |= {branch.head for _, branch in before}
        for token in tokens_of(before):
            if token not in read:
                addresses |= {entry.address for _, entry in (yield kv_scan(f"staged/{token}/"))}
        read.update(tokens_of(before))
        if not rules.every_token:
            return frozenset(addresses), frozenset(heads)
        after = yield kv_scan("branch/")
        if read.issuperset(tokens_of(after)):
            return frozenset(addresses), frozenset(heads | {branch.head for _, branch in after})
        before = after
    raise RefusedError("branches never stand still")


def tokens_of(branches: Iterable[tuple[str, Branch]]) -> list[str]:
    return [token for _, branch in branches for token in (branch.token, *branch.sealed)]


def read_commits(heads: Iterable[str], since: int | None) -> Flow[frozenset[str]]:
    """The addresses in the commits of all branches, in those of other heads, and in all written since an hour.
    Commits never change.
    """
    branches = yield kv_scan("branch/")
    every = sorted({*heads, *(branch.head for _, branch in branches)})
    young = "" if since is None else " and young ones"

    def act(world: World) -> frozenset[str]:
        commits = [commit for head in every for _, commit in lake.commits_of(world, head)]
        if since is not None:
            commits += [it for it in world.kv.values() if isinstance(it, Commit) and it.born >= since]
        return frozenset(entry.address for commit in commits for _, entry in commit.entries)

    addresses: frozenset[str] = yield Step(KV, f"read commits to {','.join(every)}{young}", act)
    return addresses


# --- the others ---------------------------------------------------------------------------------------------------


def upload(path: str, address: str) -> Flow[str]:
    by = (yield read_clock()) + REQUEST_HOURS
    yield from within(_put_and_stage(path, address, None), by)
    return "uploaded"


def upload_in_parts(path: str, address: str) -> Flow[str]:
    """The end of a multipart upload: the object appears with the time of the upload's beginning, long ago."""
    by = (yield read_clock()) + REQUEST_HOURS
    yield from within(_put_and_stage(path, address, 0), by)
    return "uploaded"


def _put_and_stage(path: str, address: str, born: int | None) -> Flow[str]:
    yield put(address, lake.body_of(address), IN_PARTS if born == 0 else None, born=born)
    return (yield from lake.stage("main", path, lake.entry(address)))


def link_late(path: str, address: str) -> Flow[str]:
    """Get an address, upload to it, link it within the allowed time."""
    issued = yield read_clock()
    yield from within(_one(put(address, lake.body_of(address))), issued + LINK_HOURS)
    now = yield read_clock()
    if now > issued + LINK_HOURS:
        raise RefusedError("too late")
    yield from within(lake.stage("main", path, lake.entry(address)), now + REQUEST_HOURS)
    return "linked"


def reset(token: str) -> Flow[str]:
    for old in (yield from lake.reset("main", token)):
        yield kv_drop(f"staged/{old}/")
    return "reset"


def set_metadata(path: str) -> Flow[str]:
    """Give an object other metadata: content of the head is staged again."""
    branch = yield from lake.get_branch("main")
    commit = yield kv_get(f"commit/{branch.head}")
    entry = dict(commit.entries).get(path)
    if entry is None:
        raise RefusedError(f"{path} is not committed")
    return (yield from lake.stage("main", path, entry))


def hard_reset(head: str) -> Flow[str]:
    """Move the branch to another commit; staged entries stay."""
    before = yield from lake.get_branch("main")
    if not (yield kv_set_if("branch/main", before._replace(head=head), before)):
        raise RefusedError("main was changed")
    return "reset"


def merge_and_delete(source: str, commit_id: str) -> Flow[str]:
    branch = yield from lake.get_branch(source)
    main = yield from lake.get_branch("main")
    theirs, ours = (yield kv_get(f"commit/{branch.head}")), (yield kv_get(f"commit/{main.head}"))
    entries = dict(ours.entries) | dict(theirs.entries)
    yield lake.set_commit(commit_id, Commit(main.head, tuple(sorted(entries.items()))))
    if not (yield kv_set_if("branch/main", main._replace(head=commit_id), main)):
        raise RefusedError("main was changed")
    yield from lake.delete_branch(source)
    return "merged"


def restore(path: str, address: str, hour: int) -> Flow[str]:
    """Restore an unreferenced object: under the lease, so no run works meanwhile."""
    yield wait_until(hour)
    lease = yield from take_lease("restore")
    if (yield head(address)) is None:
        raise RefusedError("it is gone")
    yield from within(lake.stage("main", path, lake.entry(address)), lease.until)
    yield kv_delete_if("lease", lease)
    return "restored"


def entries_of(**addresses: str) -> tuple[tuple[str, Entry], ...]:
    return tuple((path, lake.entry(address)) for path, address in sorted(addresses.items()))


def put_old(world: World, key: str) -> World:
    world.objects[key] = Object(lake.body_of(key))
    return world
