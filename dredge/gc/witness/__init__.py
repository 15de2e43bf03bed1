"""Witnesses of the past: a complete mark is compared with what earlier marks saw, before anything builds on it.

mark           `pass_witnesses`, called by `list_committed` after commits are read: a refused mark leaves nothing;
               `leave_record`, called by `check_limits`, when the candidates of the mark are complete
owner          one environment owns the namespace; ownership: its record
known_commits  the server still knows the commits that the last mark called active
unnamed        metarange files that count as active commits although no active commit names them
record         the commits of the last complete mark
lost           commits that lakeFS lost with its database
block          after a refusal nothing is deleted in the namespace until a person lifts the block
consents       what people decided, kept with the state
"""
