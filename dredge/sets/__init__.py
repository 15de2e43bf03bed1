"""Sets of 64-bit hashes. Nothing here knows a collection, or lakeFS.

hashes       sorted arrays of distinct values, with or without counts, and their files
live         sets in files, a file for each shard; several of these together: what is live
labels       hashes with labels, shard by shard
"""
