"""Sets of 64-bit hashes, independent of any collector and of lakeFS.

hashes       sorted arrays of distinct values, with or without counts, and their files
live         sets in files, one file a shard; live sets made of several of them
labels       hashes with labels, shard by shard
"""
