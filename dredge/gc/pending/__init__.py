"""The pending list of a lakeFS repository: found objects, waiting for another run.

    planning       a clean run if the list is not usable                      known.find_list
    subtract       the list before the run; due rows are read from the store  known.note_list
    check_limits   the list after this mark, and the objects after their wait advance.advance_list, write_new_list

`dredge.runs.pending` has the rows, their transitions and their store.
"""
