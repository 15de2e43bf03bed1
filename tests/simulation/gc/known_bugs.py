"""Bugs of the collector that were real once, or that the behaviour of real servers would make real.

REVIEW     what a review of the collector found, point by point (CHANGELOG.md, docs/safety.md)
SERVERS    the answer to a behaviour of lakeFS left out; names begin with its number in docs/lakefs-behaviour.md
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.mutations.breakages.breakage import GC, Breakage


def _change(file: str, old: str, new: str) -> Breakage:
    return Breakage("", file, old, new, ())


_TRANSPORT = "dredge/lakefs/transport.py"
_CLIENT = "dredge/lakefs/client.py"
_PREPARE = "dredge/lakefs/prepare.py"
_SCAN = f"{GC}/mark_uncommitted/server_scan.py"
_SOURCES = f"{GC}/list_committed/sources.py"
_TRIES = "dredge/runs/tries.py"

CHECKSUMS = (
    _change(
        f"{GC}/index/decoding.py",
        '_COLUMNS = ("address_type", "address_hash", "size")',
        '_COLUMNS = ("address_type", "address_hash", "etag")',
    ),
    _change(
        f"{GC}/index/decoding.py",
        '            unite([rows["size"].to_numpy().astype(np.uint64)]),\n        )',
        '            unite([hash64(rows["etag"])]),\n        )',
    ),
    _change(
        f"{GC}/index/decoding.py",
        'rows = read_addresses(data, key, ("key", "size"))',
        'rows = read_addresses(data, key, ("key", "etag"))',
    ),
    _change(
        f"{GC}/index/decoding.py",
        'return HeadEntries(rows["key"], rows["size"].to_numpy().astype(np.uint64))',
        'return HeadEntries(rows["key"], hash64(rows["etag"]))',
    ),
    _change(
        f"{GC}/subtract/holds.py",
        'rows["size"].to_numpy().astype(np.uint64)',
        'hash64(rows["etag"].combine_chunks())',
    ),
    _change(
        f"{GC}/subtract/holds.py",
        "from dredge.sets.live import LocatedSet, in_any",
        "from dredge.sets.live import LocatedSet, in_any\nfrom dredge.hashing import hash64",
    ),
    _change(
        f"{GC}/check_limits/holds.py",
        'COLUMNS = ["hash", "size", "hold"]',
        'COLUMNS = ["hash", "size", "etag", "hold"]',
    ),
    _change(
        f"{GC}/check_limits/identical.py",
        'found["size"].to_numpy().astype(np.uint64)',
        'hash64(found["etag"].combine_chunks())',
    ),
    _change(
        f"{GC}/check_limits/identical.py",
        "from dredge.runs.perform import StepRecord",
        "from dredge.hashing import hash64\nfrom dredge.runs.perform import StepRecord",
    ),
    _change(
        f"{GC}/check_limits/verdicts.py",
        'sizes = rows["size"].to_numpy().astype(np.uint64)',
        'sizes = hash64(rows["etag"].combine_chunks())',
    ),
    _change(
        f"{GC}/check_limits/verdicts.py",
        "from dredge.sets.hashes import",
        "from dredge.hashing import hash64\nfrom dredge.sets.hashes import",
    ),
)
"""Content is told by checksum instead of length."""

ORPHANS = (
    _change(
        "dredge/runs/folder.py",
        "if summary is None or summary.try_number != newest_number(self.writer, step):",
        "if summary is None:",
    ),
    _change(_TRIES, "        if newest != self.number:\n", "        if False:\n"),
    _change(_TRIES, "            if number > self.number:\n", "            if False:\n"),
    _change("dredge/runs/chain.py", "    if wrong:\n", "    if False:\n"),
    _change(f"{GC}/check_limits/proofs.py", 'must("order", not wrong,', 'must("order", True,'),
)
"""The last summary of a step counts, whoever wrote it."""

CLOCKS = (
    _change(
        f"{GC}/clocks.py", "    if abs(worst) > seconds_max:\n        raise", "    if False:\n        raise"
    ),
    _change(
        f"{GC}/clocks.py",
        "    if max(abs(bound) for interval in intervals for bound in interval) > 2 * seconds_max:",
        "    if False:",
    ),
    _change(
        f"{GC}/clocks.py",
        'return Finding(rule, "refused", round(worst)',
        'return Finding(rule, "passed", round(worst)',
    ),
)
"""Servers' clocks may differ from the store's."""

FOREIGN = (
    _change(
        _TRANSPORT,
        "        return self.status != 404 or _LAKEFS_404",
        "        return True or self.status != 404 or _LAKEFS_404",
    ),
    _change(
        _TRANSPORT,
        "        documents = self.documents\n        if not documents or",
        "        if self.status == 404:\n            return True\n"
        "        documents = self.documents\n        if not documents or",
    ),
    _change(
        _CLIENT,
        "if isinstance(error, NotFoundError) and absent is not None and response.message not in absent:",
        "if False:",
    ),
)
"""Any 404 says that what was asked for is not there."""

REVIEW: Mapping[str, tuple[Breakage, ...]] = {
    "A1, A2: content is told by checksum": CHECKSUMS,
    "A3: branch names before and after prove a scan": (
        _change(
            f"{GC}/mark_uncommitted/staging.py",
            "proof = prove(run, after, staging.scanned, scan.unsafe, bool(moved), give_up_at)",
            "proof = Proof(branches=len(after))",
        ),
    ),
    "A4: a 404 is a 404, whoever sends it": FOREIGN,
    "A5: an orphaned earlier try writes the result": ORPHANS,
    "A6: the minimum age is the time for linking": (
        *CLOCKS,
        _change(f"{GC}/config.py", "MIN_AGE_HOURS = LINK_HOURS + 1", "MIN_AGE_HOURS = LINK_HOURS"),
        _change(f"{GC}/config.py", "            self._check_clocks()\n", "            pass\n"),
    ),
    "B7: without its index a run ends with a KeyError": (
        _change(
            f"{GC}/check_limits/places.py",
            "        (lacking if name is None else groups[name]).append(range_id)",
            "        groups[{}[range_id] if name is None else name].append(range_id)",
        ),
    ),
    "B8: an object that cannot be looked at ends the run": (
        _change(
            f"{GC}/subtract/store_lookup.py",
            "        return _Refused(address, str(error))",
            "        raise",
        ),
    ),
    "B9: clocks of workers prove the order": (
        _change(
            f"{GC}/check_limits/proofs.py",
            '    text = "results were made from each other in the order',
            "    inputs = check.record.inputs\n"
            '    listed, staged = inputs["slice_listing"], inputs["mark_uncommitted"]\n'
            '    wrong += ["clocks"] if staged.started_at < listed.finished_at else []\n'
            '    text = "results were made from each other in the order',
        ),
    ),
}
"""By point of the review."""

SERVERS: Mapping[str, tuple[Breakage, ...]] = {
    "L2: no rules means that nothing is committed": (
        _change(
            _SOURCES,
            "Found(branches, tags, graph, rules, prepared is None or rules is None)",
            "Found(branches, tags, graph, rules, False)",
        ),
        _change(
            _SOURCES,
            "Found(branches, recorded.tags, graph, rules, rules is None,",
            "Found(branches, recorded.tags, graph, rules, False,",
        ),
    ),
    "L3: only the last page's files count": (
        _change(
            _SCAN,
            "    if page.location:\n",
            "    scan.locations.clear()\n    if page.location:\n",
        ),
        _change(
            _SCAN,
            'folders = scan.locations | {f"{SCANS}/{scan.server_run}/uncommitted/"}',
            "folders = scan.locations",
        ),
        _change(_SCAN, "if len(keys) < with_rows:", "if False:"),
        _change(_SCAN, "        scan.unsafe.append(Extent.between(token, page.token))", "        pass"),
    ),
    "L4: a page without a file says that nothing was staged, and ends of branches are not looked at": (
        _change(_SCAN, "        scan.unsafe.append(Extent.between(token, page.token))", "        pass"),
        _change(
            f"{GC}/mark_uncommitted/proof.py",
            "            self._proof.lost = (branch, change.path, lost)",
            "            pass",
        ),
    ),
    "L22: hidden branches are passed over": (
        _change(_CLIENT, '{"show_hidden": "true"}', '{"show_hidden": "false"}'),
    ),
    "L23: of staging records only the current token's are read": (
        _change(
            f"{GC}/mark_uncommitted/kv_records.py",
            "new = [token for branch in branches for token in branch.tokens if token not in read]",
            "new = [branch.staging_token for branch in branches if branch.staging_token not in read]",
        ),
    ),
    "L37: what a store did not confirm is deleted": (
        _change(
            "dredge/runs/ledger.py",
            "        [item.outcome for item in sent],",
            '        ["deleted" for item in sent],',
        ),
    ),
    "L42: a 404 for a full commit id is believed": (
        _change(_CLIENT, "            if len(commit_id) != 64:\n", "            if True:\n"),
    ),
    "L49: two documents in a 400 are no result": (
        _change(_PREPARE, "    if response.status == 400:", "    if False:"),
    ),
    "L50: a server without the asynchronous call cannot be collected": (
        _change(_PREPARE, "        if started.message != NO_SUCH_CALL:", "        if True:"),
    ),
    "L51: rules without branches are a list": (
        _change(_CLIENT, 'branches = value.get("branches") or []', 'branches = value["branches"]'),
    ),
    "L52: ends of branches are not looked at": (
        _change(
            f"{GC}/mark_uncommitted/proof.py",
            "            self._proof.lost = (branch, change.path, lost)",
            "            pass",
        ),
    ),
    "L54: what a cache has kept is an answer": (
        _change(_TRANSPORT, 'if not documents or self.age not in ("", "0"):', "if not documents:"),
    ),
    "L55: servers' clocks are not compared": CLOCKS,
}
"""By entry of docs/lakefs-behaviour.md."""

_ITSELF = "the program holds its own work against itself, and no history changes that work"
_OWN_FILES = "nobody damages these of a run's own files"
_ONE_HASH = "no two addresses here have one hash"
_GCS = "parts of uploads are objects on Google Cloud Storage only, which is not played"
_S3 = "of the driver for S3, which is not played"
_ELSEWHERE = "no repository here is made anew elsewhere"
_ICECHUNK = "of Icechunk's collector, which this world does not play"
_NOT_ASKED = "the guard {} is not asked"
_MAY_ASK = "a run that may ask nobody passes its limits"
_LEASE = "nobody but the guards asks for the lease"
HELPERS: Mapping[str, tuple[Breakage, ...]] = {
    _LEASE: (
        _change(
            "dredge/runs/gate.py",
            "check_lease(self._state, LEASE, self._config.lease, store_now)",
            "pass",
        ),
        _change(
            "dredge/runs/lease.py", "if not (held and stands and", "if False and not (held and stands and"
        ),
        _change(
            f"{GC}/bulk_delete/step.py",
            "run.lease.renew(run.plan.lease, take_back=False, shorten=True)",
            "pass",
        ),
    ),
}
"""Several guards left out that notice what one bug alone would let through."""
_VERDICT, _ENDS_WELL = "a sweep does not ask for the guards' verdict", "a run whose verdict is bad ends well"
_ENDS, _NO_FILE = (
    "L52: ends of branches are not looked at",
    "a page without a file says that nothing was staged",
)
_SHARES = "a repository that shares the namespace by now is not noticed"
_SHARES_LATER = "nobody looks at namespaces while workers delete"
_CANARIES, _ALIKE = "canaries are not looked for", "identical content is garbage like any other"
_ONE_HOLD, _CLEARED = "a proof about one hold lifts another", "what is not among the cleared is cleared"
_SCANS = "A3: branch names before and after prove a scan"
BESIDE: Mapping[str, tuple[str, ...]] = {
    "L3: only the last page's files count": (_ENDS,),
    _ENDS: (_NO_FILE,),
    _NO_FILE: (_ENDS,),
    "a missing file of staged addresses is accepted": (_ENDS,),
    "what a commit wrote while staging was read counts only where a branch leads to it": (
        "the re-check reads no ranges that only a commit left behind has",
    ),
    "staging that vanished is fine": (_SCANS, _CANARIES),
    _NOT_ASKED.format("staged.staging_not_gone"): (_SCANS, _CANARIES),
    _NOT_ASKED.format("surroundings.namespaces_apart"): (_SHARES, _SHARES_LATER),
    "namespaces that overlap by now pass": (_SHARES, _SHARES_LATER),
    _SHARES: (_SHARES_LATER,),
    _NOT_ASKED.format("surroundings.lease_held"): (_LEASE,),
    "the guards do not ask for the lease": (_LEASE,),
    _CANARIES: (_ALIKE,),
    _NOT_ASKED.format("surroundings.canaries_stay"): (_ALIKE,),
    _ONE_HOLD: (_CLEARED,),
    _CLEARED: (_ONE_HOLD,),
    _NOT_ASKED.format("proofs.order"): ("results need not belong together",),
    "results may be read in any order": ("results need not belong together",),
    "the sweep asks for no approval before it begins": (
        "a round of deleting begins without a look at the approval",
    ),
    "a run beyond its limits asks nobody": (
        "the sweep of a run that exceeds its limits and asked nobody begins",
    ),
    "a look at heads that fails finds nothing": (_SHARES_LATER,),
    "tags keep nothing": ("the re-check forgets tags of the time before its scan",),
    "heads that branches had during the scan are forgotten": (
        "a sweep long after its guards does not ask branches again",
    ),
    "an object in parts settles although branches were asked about it before its server had staged it": (
        "a sweep long after its guards does not ask branches again",
    ),
    "a yes wins against a no": ("nobody looks for a no while objects are deleted",),
    "an approval outlives the mark": ("an old mark is swept",),
    "slices that objects came back into are listed once, however young those are": (
        "young objects in slices that are done with are forgotten",
    ),
    "the comparison does not know what is pinned": ("the sweep does not look for pins again",),
    "the folder of a run goes with the copies in it": ("copies of what was deleted are taken for own files",),
    "copies of what was deleted are taken for own files": ("the folder of a run goes with the copies in it",),
    _VERDICT: (_ENDS_WELL,),
    _ENDS_WELL: (_VERDICT,),
    "the sweep of a run that exceeds its limits and asked nobody begins": (_MAY_ASK,),
    _MAY_ASK: ("the sweep of a run that exceeds its limits and asked nobody begins",),
}
"""What must be broken as well, where more than one guard catches a fault."""
WHY_NOT: Mapping[str, str] = {
    "an earlier look that arrives last opens the gate again": "such a look is no older than"
    " what a sweep may not have noticed yet;"
    " `test_a_look_that_arrives_after_the_one_that_closed_the_gate_opens_nothing` does",
    "a worker asks for the time before it reads what the driver saw": "every machine here knows that it slept;"
    " `test_a_worker_asks_for_the_time_after_it_has_read_what_the_driver_saw` does",
    "a look counts for longer when the store's clock is set back": "a store's clock never goes back here",
    "a look from the store's future is believed": "a store's clock never goes back here;"
    " `test_a_look_of_a_driver_that_died_before_the_stores_clock_was_set_back_opens_nothing` does",
    "a namespace that a link leads to is another place": "the stores here have no links;"
    " `test_a_namespace_that_a_link_leads_to_is_the_same_place` does",
    "objects without a time pass": "every store here gives times",
    "an object outside data/ may be a candidate": "no listing leaves data/",
    "the sweep deletes wherever candidates lie": "no listing leaves data/",
    "a row with the hash of another address may be a candidate": _ITSELF,
    "hashes of a shard that were not compared are not missed": _ITSELF,
    "rows that were not cut into shards are not missed": _ITSELF,
    "rows that were not compared are not missed": _ITSELF,
    "rows that are listed and not compared pass": _ITSELF,
    "staged rows that were not copied pass": _ITSELF,
    "holds may be other ones than were counted": _ITSELF,
    "any key may be deleted as an own file": _ITSELF,
    "the chain leaves out an input": _ITSELF,
    "the chain leaves out what an input was made from": _ITSELF,
    "a result may lack an input": _ITSELF,
    "a hold that nobody knows holds nothing": _ITSELF,
    "a verdict that nobody knows clears": _ITSELF,
    "a part of the index is believed unseen": _OWN_FILES,
    "a damaged proof is accepted": _OWN_FILES,
    "an upload goes on only by what the listing has of it": _GCS,
    "parts of an upload that goes on go with the minimum age": _GCS,
    "only the new parts of an upload are held": _GCS,
    "a question may be changed after its answer": _OWN_FILES,
    "a question that was changed before its answer counts": _OWN_FILES,
    "an answer to something else counts": _OWN_FILES,
    "what lies outside the data is restored and purged": _OWN_FILES,
    "an answer from the future counts for longer": "no store's clock goes back here while a run waits",
    "another holder's run is taken over": "a DAG run goes on with no run but its own, and whoever goes on with a run by"
    " hand is refused before unless the run is local",
    "an object goes though it is not as it was listed": "nobody here writes under a key of data again while a run lists"
    " and deletes: lakeFS gives no address twice",
    "versions are taken for delete markers": _ITSELF,
    "a current version goes for good": _ITSELF,
    "a pin goes before a run has seen what came back": "a restore ends before its pin, and no cutoff here is as old"
    " as the week for which an ended pin stays",
    "the folder of a purge goes whoever it is of": "only one repository here is collected",
    "a pin that cannot be read holds nothing": _OWN_FILES,
    "a scan of staging without branches passes": "a list without branches is refused right where it is read",
    "a name on a local folder lies in no whole path": "no repository here lies in a local folder",
    "a repository may have moved since the plan": _ELSEWHERE,
    _NOT_ASKED.format("surroundings.same_namespace"): _ELSEWHERE,
    _NOT_ASKED.format("proofs.listing_complete"): _ITSELF,
    _NOT_ASKED.format("proofs.staging_complete"): _ITSELF,
    _NOT_ASKED.format("proofs.live_not_empty"): _ITSELF,
    _NOT_ASKED.format("proofs.committed_not_empty"): _ITSELF,
    "nothing live is fine": _ITSELF,
    "commits without ranges are fine": _ITSELF,
    "a size that nobody looked into is settled": "every size that is held is looked into",
    _NOT_ASKED.format(
        "proofs.identical_content"
    ): "it only tells what the proofs came to, and refuses nothing",
    _NOT_ASKED.format(
        "proofs.nothing_nested"
    ): "it only names folders that subtract keeps, and refuses nothing",
    "full addresses are read as keys": "servers here refuse imports from their own repositories",
    "what a snapshot that came back shared with others goes": _ICECHUNK,
    "the library may delete what is pinned": _ICECHUNK,
    "a restore on S3 trusts a condition that stores pass over": _S3,
    "an upload that is gone is taken for an object that is gone": _S3,
    "a version without an id of its own goes, whatever has the id by now": "no bucket here loses its versioning",
    "only the newest runs of a run root are looked through": "no run root here has 300 runs",
    "a run of another repository is resumed": "only one repository here is collected",
    "a restore takes from a run of another repository": "only one repository here is collected",
    "a path that nobody can ask for clears": "paths here are UTF-8",
    "a hash alone says that an object in parts was known before": _ONE_HASH,
    "verdicts are skipped": _ONE_HASH,
    "an answer without a result counts as deleted": _S3,
    "a copy that differs from its source passes": _S3,
    "anything may be permission to delete": "settings here are no text",
    "everybody may approve": "no run here names its approvers",
    "names from the lake are shown as they are": "nobody here reads a page",
    "a bucket without versions is swept as if it had them": "no bucket here loses its versioning",
}
"""Why no history can show a bug of the list of mutations; the tests that do are named there."""
