"""Collection: delete the objects that no snapshot reaches.

    plan            plan, planning, run      what a run works on, and the right to work on it
      ↓
    mark            refs → snapshots → manifests → chunks: what is live, as sorted numbers
      ↓
    list_candidates what the store holds besides, older than the cutoff
      ↓
    check_limits    limits, canaries, live objects that are missing: may these candidates be deleted?
      ↓
    bulk_delete     looks again, then deletes kind by kind, with a ledger
      ↓
    verify          what was deleted is gone, what is live is there
      ↓
    save_report     what became of the run, for people and for programs

A step is a package; its name is the folder of its results in the run's folder. `steps` has them in order. Only
`bulk_delete` is handed a deleter: all others read the repository, and write into the run's folder.

All steps share `kinds` (the folders of a repository), `age`, `sets` (ids as numbers), `live_files` (what snapshots and
manifests name) and `index` (the same, read once for ever). `estimate` counts garbage without a run.
"""
