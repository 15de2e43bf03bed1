"""The lakeFS collector.

    planning            lease, cutoff, mode                                 plan.json
       │
    slice_listing       objects below data/ in the store                    slice_listing/part-…
       │
    mark_uncommitted    staged objects of branches, before any commit       mark_uncommitted/addresses-…
       │
    list_committed      active commits → ranges → live objects              list_committed/…, the committed index
       │                  └ retention: commits kept beyond lakeFS's rules
    subtract            listed − live, each with a reason, some held        subtract/part-…
       │
    check_limits        guards; held objects are examined                   check_limits/…, guard.json
       │
    approve             a person's answer, if one is needed                 approve/…
       │
    bulk_delete         re-check, then deletions through the gate           bulk_delete/… (the ledger)
       │
    verify              deleted objects are missing, live ones exist        verify/…
       │
    save_report         the state for the next run, and the report          state/…, report.html

A step has one name: of the task in Airflow, the package here, `STEP`, the folder in the run folder, and the folder of
its tests. Other packages import from the package of a step only. `sets` (sets of hashes) and `index` (decoded ranges)
serve several steps; an optimized run builds on `state`. The environment has the lakeFS server and the access to stores
if a caller passes no `client` and no `options`. Unreadable files raise FormatError.

Read `steps`, then `run`, then the packages in the order above. `docs/architecture.md` follows an address through them;
`docs/safety.md` has the argument that no live object is deleted.
"""
