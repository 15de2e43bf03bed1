"""Witnesses of the past: what earlier complete marks saw, compared with what this one sees.

    record       what a complete mark leaves for the next one: `known.parquet`
    lost         ref tips that were known and are not reached now; snapshots that nothing names
    operations   spec 2: the newest operation that the last mark read must be in the log
    old_refs     spec 2: files in `refs/`, of before the upgrade or of a writer that goes on with spec 1
    judging      all of them together, for the mark
    forgetting   a person accepts what was refused

A mark that is refused leaves nothing. A person's statement ends the refusal; what was lost is kept all the same, until
`keep_lost_days` are over.
"""
