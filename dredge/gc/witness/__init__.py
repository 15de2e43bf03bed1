"""Witnesses of the past: a complete mark is compared with earlier marks before later steps use it.

mark        `Witnesses`: the server must know active commits of the last mark, and metaranges without a commit count
owner       the owner's server and the last id: records and checks; a block stops all deletions
record      commits of the last complete mark
people      statements of people about owner, block, and commits lost with lakeFS's database
"""
