"""Sets of 64-bit hashes: on disk, in shards, counted, and joined to the set of what is live."""
