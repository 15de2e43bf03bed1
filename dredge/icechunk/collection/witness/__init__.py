"""Witnesses of the past: compare the records of earlier complete marks with this mark.

    record       the record of a complete mark for the next one: `known.parquet`
    operations   spec 2: the newest operation of the last mark must be in the log; files in `refs/` after an upgrade
    judging      lost tips, released and unreferenced snapshots, refusals, and a person's consent

A refused mark leaves no record. A person's consent ends the refusal; lost tips are kept for `keep_lost_days` all the
same.
"""
