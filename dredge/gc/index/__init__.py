"""The committed index: every range decoded once, as hashes and sizes, and kept for the life of the repository."""
