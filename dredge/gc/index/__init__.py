"""The committed index: the address hashes and sizes of every range, decoded once.

ranges    range and metarange files, read and decoded
store     the files of the index, and searches in it
"""
