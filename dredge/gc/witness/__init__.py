"""Witnesses of the past: a complete mark is compared with earlier marks before later steps use it.

mark        `pass_witnesses` and `leave_record`; active commits of the last mark must be known to the server
owner       the owner's server and the last id are checked; a block stops all deletions
ownership   records of the owner and of the id
unnamed     metarange files counted as active commits
record      commits of the last complete mark
lost        commits lost with lakeFS's database
people      statements of people about owner and block
"""
