"""The pending list of a lakeFS repository: what was found, and waits for another run.

    planning       is the list usable? else the run is a clean one            known.find_list
    subtract       the list as it is; rows that are due are looked for        known.note_list
    check_limits   the list after this mark, and what has waited              advance.advance_list, known.leave

`dredge.runs.pending` has the rows, how they advance, and their store.
"""
