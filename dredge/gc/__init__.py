"""The lakeFS collector: what is listed, what is live, what may go, and how it goes.

    planning            the right to run, cutoff, mode                      plan.json
       │
    slice_listing       what the store holds below data/                    slice_listing/part-…
       │
    mark_uncommitted    what branches have staged, before any commit        mark_uncommitted/addresses-…
       │
    list_committed      active commits → ranges → what is live              list_committed/…, the committed index
       │                  └ retention: what is kept beyond lakeFS's rules
    subtract            listed − live, with a reason, perhaps held          subtract/part-…
       │
    check_limits        every guard is asked; held objects are looked into  check_limits/…, guard.json
       │
    approve             where a person has to be asked: question, answer    approve/…
       │
    bulk_delete         looks again, then deletes through the gate          bulk_delete/… (the ledger)
       │
    verify              what was deleted is gone, what lives is there       verify/…
       │
    save_report         the state for the next run, and the report          state/…, report.html

A step has one name: the task in Airflow, the package here, `STEP`, the folder in the run folder, and the folder of
its tests. Each package has a `step.py` with the step's function, and its `__init__.py` names what later steps may use
of its result; other rooms import from the package only. `sets` (sets of hashes) and `index` (decoded ranges) serve
several steps; `state` is what an optimized run builds on.

To read: `steps`, then `plan` and `run`, then the packages in the order above. `docs/architecture.md` follows one
address through them; `docs/safety.md` says why nothing that lives can be deleted.
"""
