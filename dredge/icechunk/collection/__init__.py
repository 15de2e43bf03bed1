"""Collection: delete the objects that no snapshot reaches.

    planning          plan of a run, and its lease
      ↓
    mark              live objects: refs → snapshots → manifests → chunks, as sorted 64-bit ids
      ↓
    list_candidates   other objects in the store, older than the cutoff, that have waited
      ↓
    check_limits      limits, canaries, missing live objects (`absent`)
      ↓
    approve           a person's answer, where the run must ask
      ↓
    bulk_delete       re-check (`recheck`), then deletion kind by kind (`deleting`), with a ledger
      ↓
    verify            check the deletions, and that live objects exist
      ↓
    save_report       state for the next run, clean-up (`own_files`), report

`outputs` has the results that each step hands to later steps. `steps` has all steps in order. Only `deleting` has a
deleter; all other modules read the repository and write into the run's folder.
"""
