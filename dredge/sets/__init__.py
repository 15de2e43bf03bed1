"""Sets of 64-bit hashes. Nothing here knows a collection, or lakeFS.

hashes       sorted arrays of distinct values
refcounts    the same, with a count for each value
files        both as files
sharded      sets in files, a file for each shard
live         several of these together: what is live
"""
