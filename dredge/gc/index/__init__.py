"""The committed index: every range decoded once, as hashes and sizes, and kept for the life of the repository.

metaranges    which ranges a metarange names
ranges        what is said of a range, as rows and in shares
decoding      what a range file names
store         the index's files
upkeep        compaction, verification, repair
"""
