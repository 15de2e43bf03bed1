"""Witnesses of the past: compare the records of earlier complete marks with this mark.

    record    the record of a complete mark for the next one: `known.parquet`; the operations log of spec 2, which must
              have the newest operation of the last mark; files in `refs/` after an upgrade
    judging   lost tips, released and unreferenced snapshots, refusals, and a person's consent

A refused mark writes no record. A person's consent ends the refusal; lost tips are still kept for `keep_lost_days`.
"""
