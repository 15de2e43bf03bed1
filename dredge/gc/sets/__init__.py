"""Sets of 64-bit hashes: in memory, with counts, in files by shard, and together the set of what is live."""
