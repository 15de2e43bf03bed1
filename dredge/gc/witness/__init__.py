"""Witnesses of the past: a complete mark is compared with earlier marks before later steps use it.

mark        `pass_witnesses` and `leave_record`; active commits of the last mark must be known to the server
owner       the owner's server and the last id: records and checks; a block stops all deletions
record      commits of the last complete mark, and metarange files counted as active commits
people      statements of people about owner, block, and commits lost with lakeFS's database
"""
