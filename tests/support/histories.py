"""Random histories of a lake: operations drawn by Hypothesis, and the live objects after them.

The live set is computed in another way than the collector's: from every branch, and from every entry of the active
commits found by a plain walk without any shortcut.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

from hypothesis import strategies as st

from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.retention import RetentionPolicy
from dredge.gc.run import Run
from dredge.lakefs.files import messages
from dredge.lakefs.files.addresses import address_readings
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.store import RangeReader
from lakefs_embedded.errors import GravelerError, RulesNotFoundError
from lakefs_embedded.refs.records import sealed
from tests.support.gc import World

BRANCHES = ("main", "one", "two", "hidden")
PATHS = ("a", "b", "dir/c")
CONTENTS = (b"", b"x", b"y")

branch = st.sampled_from(BRANCHES)
path = st.sampled_from(PATHS)
content = st.sampled_from(CONTENTS)
number = st.integers(0, 30)
operation = st.one_of(
    st.tuples(st.just("upload"), branch, path, content),
    st.tuples(st.just("upload"), branch, path, content),
    st.tuples(st.just("commit"), branch, st.booleans()),
    st.tuples(st.just("commit"), branch, st.booleans()),
    st.tuples(st.just("delete"), branch, path),
    st.tuples(st.just("copy"), branch, path, path),
    st.tuples(st.just("metadata"), branch, path),
    st.tuples(st.just("link"), branch, path, content, st.booleans()),
    st.tuples(st.just("stage"), branch, path, number),
    st.tuples(st.just("orphan"), content),
    st.tuples(st.just("branch"), branch, branch),
    st.tuples(st.just("branch from commit"), branch, number),
    st.tuples(st.just("drop branch"), branch),
    st.tuples(st.just("reset"), branch),
    st.tuples(st.just("reset path"), branch, path),
    st.tuples(st.just("hard reset"), branch, number),
    st.tuples(st.just("merge"), branch, branch, st.sampled_from(["", "dest-wins", "source-wins"])),
    st.tuples(st.just("revert"), branch, number),
    st.tuples(st.just("tag"), number),
    st.tuples(st.just("seal"), branch),
    st.tuples(st.just("age"), st.integers(1, 9)),
)
later = st.one_of(
    operation,
    operation,
    operation,
    st.tuples(st.just("hand out"), branch, path),
    st.tuples(st.just("arrive"), content, st.booleans()),
    st.tuples(st.just("rules"), st.sampled_from([None, 1, 5, 30])),
    st.tuples(st.just("untag"), number),
    st.tuples(st.just("late"), branch, path, content, st.integers(20, 47), st.integers(1, 23)),
    st.tuples(st.just("again"), branch, path, st.integers(0, 60)),
    st.tuples(st.just("supersede"), branch, path),
    st.tuples(st.just("supersede"), branch, path),
    st.tuples(st.just("age"), st.integers(10, 40)),
    st.tuples(st.just("hours"), st.integers(1, 30)),
)
"""Operations for several runs only."""
LATEST_ARRIVAL = timedelta(hours=48)
"""Maximum age of an address at its upload; the margin of slices must be longer."""


class History:
    """Does operations on a lake; refused operations have no effect."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.catalog = world.lake.catalog
        self.name = world.lake.repository
        self.made: list[str] = []
        self.handed_out: list[tuple[datetime, str, str, str]] = []
        self.steps: dict[str, Callable[..., object]] = {
            "upload": lambda branch, path, content: self.keep(world.upload(path, content, branch)),
            "commit": self.commit,
            "delete": lambda branch, path: self.catalog.objects.delete_object(self.name, branch, path),
            "copy": lambda branch, path, source: self.catalog.objects.copy_object(
                self.name, branch, path, source
            ),
            "metadata": lambda branch, path: self.catalog.objects.update_user_metadata(
                self.name, branch, path, {"k": "v"}
            ),
            "link": self.link,
            "stage": self.stage,
            "orphan": lambda content: self.keep(world.orphan(f"data/orphans/{len(self.made)}", content)),
            "branch": lambda branch, source: self.branch(branch, source),
            "branch from commit": lambda branch, number: self.branch(branch, self.commit_id(number)),
            "drop branch": lambda branch: self.catalog.branches.delete_branch(self.name, branch),
            "reset": lambda branch: self.catalog.branches.reset_branch(self.name, branch),
            "reset path": lambda branch, path: self.catalog.branches.reset_branch(
                self.name, branch, kind="object", path=path
            ),
            "hard reset": lambda branch, number: self.catalog.branches.hard_reset(
                self.name, branch, self.commit_id(number)
            ),
            "merge": self.merge,
            "revert": self.revert,
            "tag": lambda number: self.catalog.tags.create_tag(
                self.name, f"t{number}", self.commit_id(number)
            ),
            "seal": self.seal,
            "age": lambda days: world.age(days=days),
            "hours": lambda hours: world.age(hours=hours),
            "hand out": self.hand_out,
            "arrive": self.arrive,
            "rules": self.rules,
            "late": self.late,
            "again": self.again,
            "supersede": self.supersede,
            "untag": lambda number: self.catalog.tags.delete_tag(self.name, f"t{number}"),
        }

    def do(self, name: str, *arguments: object) -> None:
        with suppress(GravelerError):
            self.steps[name](*arguments)

    def keep(self, address: str) -> None:
        self.made.append(address)

    def commit_ids(self) -> list[str]:
        found = self.catalog.refs.repositories.get(self.name)
        return [commit.id for commit in self.catalog.refs.commits.all(found)]

    def commit_id(self, number: int) -> str:
        ids = self.commit_ids()
        return ids[number % len(ids)]

    def commit(self, branch: str, back_dated: bool) -> None:
        date = self.world.lake.clock() - timedelta(days=40) if back_dated else None
        self.world.lake.commit(f"commit {len(self.commit_ids())}", branch, date=date)

    def branch(self, branch: str, source: str) -> None:
        self.catalog.branches.create_branch(self.name, branch, source, hidden=branch == "hidden")

    def link(self, branch: str, path: str, content: bytes, linked: bool) -> None:
        full = self.catalog.addresses.get_physical_address(self.name, branch, path)
        key = full.removeprefix(self.world.lake.namespace + "/")
        self.keep(self.world.orphan(key, content))
        if linked:
            self.catalog.addresses.link_physical_address(
                self.name, branch, path, physical_address=full, checksum="c", size_bytes=len(content)
            )

    def hand_out(self, branch: str, path: str) -> None:
        full = self.catalog.addresses.get_physical_address(self.name, branch, path)
        self.handed_out.append((self.world.lake.clock(), branch, path, full))

    def arrive(self, content: bytes, linked: bool) -> None:
        """Upload to an address handed out earlier, and link it if that is still allowed."""
        if not self.handed_out:
            return
        at, branch, path, full = self.handed_out.pop(0)
        if self.world.lake.clock() - at > LATEST_ARRIVAL:
            return
        self.keep(self.world.orphan(full.removeprefix(self.world.lake.namespace + "/"), content))
        if linked:
            self.catalog.addresses.link_physical_address(
                self.name, branch, path, physical_address=full, checksum="c", size_bytes=len(content)
            )

    def late(self, branch: str, path: str, content: bytes, wait: int, then: int) -> None:
        """Upload to an address hours after it was handed out, when its slice is hardly listed any more."""
        self.hand_out(branch, path)
        self.handed_out.insert(0, self.handed_out.pop())
        self.world.age(hours=wait)
        self.arrive(content, linked=wait < 24 and then % 2 == 0)
        self.world.age(hours=then)

    def again(self, branch: str, path: str, hours: int) -> None:
        """Upload the present content of a path again; the server never shows the new copy."""
        content = self.world.lake.read(path, branch)
        self.keep(self.world.upload(path, content, branch))
        self.world.age(hours=hours)

    def supersede(self, branch: str, path: str) -> None:
        """Two commits with another object each; the first one's is garbage when it expires."""
        for number in range(2):
            self.keep(self.world.upload(path, f"{len(self.made)} {number}".encode(), branch))
            self.commit(branch, back_dated=False)

    def rules(self, days: int | None) -> None:
        if days is None:
            self.catalog.garbage.delete_gc_rules(self.name)
        else:
            self.world.rules(days, two=2 * days)

    def stage(self, branch: str, path: str, number: int) -> None:
        if not self.made:
            return
        key = self.made[number % len(self.made)]
        if key not in self.world.data():
            return
        # Any checksum, but the true size: a copy of an entry with a wrong size looks like garbage without the
        # key-value store.
        self.catalog.objects.stage_object(
            self.name,
            branch,
            path,
            physical_address=f"{self.world.lake.namespace}/{key}",
            checksum="c",
            size_bytes=self.world.lake.objects.stat(key).size,
        )

    def merge(self, source: str, destination: str, strategy: str) -> None:
        self.catalog.merges.merge(self.name, source, destination, committer="tester", strategy=strategy)

    def revert(self, branch: str, number: int) -> None:
        self.catalog.merges.revert(
            self.name, branch, self.commit_id(number), parent_number=1, committer="tester"
        )

    def seal(self, branch: str) -> None:
        """The state after a commit killed at its first write."""
        found = self.catalog.refs.repositories.get(self.name)
        token = f"{self.name}-{branch}:sealed-{len(self.commit_ids())}-{len(self.made)}"
        self.catalog.staging.protocol.change(found, branch, lambda present: sealed(present, token))


def alive(world: World, catalog: Catalog, keep_tags: bool = True) -> set[str]:
    """Every address on a branch, or in a commit kept by a rule or a tag."""
    name = world.lake.repository
    found = catalog.refs.repositories.get(name)
    branches = list(catalog.refs.branches.scan(found))
    commits = {commit.id: commit for commit in catalog.refs.commits.all(found)}
    try:
        rules = catalog.garbage.get_gc_rules(name)
    except RulesNotFoundError:
        active = set(commits)
    else:
        # In doubt the collector takes a commit for young: clocks differ by minutes.
        now = world.lake.clock() - timedelta(minutes=5)
        heads = {branch.commit_id for branch in branches}
        mains = {commit.main_parent for commit in commits.values()}
        active = set(heads)
        starts = [(branch.commit_id, rules.threshold(now, branch.name)) for branch in branches]
        for leaf in set(commits) - mains - heads:
            threshold = rules.threshold(now, None)
            starts.append((leaf, threshold))
            if commits[leaf].creation_date > threshold:
                active.add(leaf)
        for start, threshold in starts:
            commit = commits[start]
            while commit.main_parent is not None:
                if commit.creation_date > threshold:
                    active.add(commit.main_parent)
                commit = commits[commit.main_parent]
        if keep_tags:
            active |= {tag.commit_id for tag in catalog.tags.list_tags(name, amount=1000).results}
    addresses: set[str] = set()
    for commit_id in active:
        for named in entries_of(world, commits[commit_id].metarange_id).values():
            addresses |= named
    for branch in branches:
        addresses.update(world.served(branch.name).values())
    return addresses


def entries_of(world: World, metarange_id: str) -> dict[str, set[str]]:
    """The addresses that a commit's entries may mean, by path."""
    found = {}
    for key, value in RangeReader(world.lake.objects).list_entries(metarange_id):
        entry = Entry.decode(value.data, repr(key))
        readings = address_readings(entry.address, entry.address_type, world.lake.namespace)
        found[key.decode()] = set(readings)
    return found


def of_unnamed(world: World, context: Run) -> set[str]:
    """Every address in metaranges counted by a run as active commits."""
    summary = context.folder.read_summary("list_committed")
    if summary is None:
        return set()
    rows = context.folder.read_part(ListCommittedOutput.of(summary).unnamed_metaranges)
    named = [entries_of(world, found) for found in rows["metarange_id"].to_pylist()]
    return {address for entries in named for readings in entries.values() for address in readings}


def kept_by(world: World, catalog: Catalog, policy: RetentionPolicy | None) -> set[str]:
    """Every address kept by the rules of a policy; its patterns are plain names here."""
    found = catalog.refs.repositories.get(world.lake.repository)
    commits = {commit.id: commit for commit in catalog.refs.commits.all(found)}
    addresses: set[str] = set()
    for rule in policy.rules if policy is not None else ():
        for branch in catalog.refs.branches.scan(found):
            at = branch.commit_id if branch.name in rule.branches else None
            for _ in range(rule.last if rule.last is not None else len(commits)):
                if at is None:
                    break
                for path, named in entries_of(world, commits[at].metarange_id).items():
                    if not rule.paths or path in rule.paths:
                        addresses |= named
                at = commits[at].main_parent
    return addresses


def staged_anywhere(world: World, catalog: Catalog) -> set[str]:
    """Every address in a record of a branch's tokens, also below a newer one."""
    found = catalog.refs.repositories.get(world.lake.repository)
    addresses: set[str] = set()
    for token in {token for branch in catalog.refs.branches.scan(found) for token in branch.tokens}:
        for row in world.lake.kv.scan(token.encode()):
            record = messages.decode(messages.StagedEntryData, row.value, "record")
            if record.identity:
                entry = Entry.decode(record.data, "record")
                addresses.update(address_readings(entry.address, entry.address_type, world.lake.namespace))
    return addresses
