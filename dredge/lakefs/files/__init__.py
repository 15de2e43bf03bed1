"""Files of a lakeFS server. They decide which objects are live.

    addresses                    possible keys of an entry's address
    ident                        identity and data of a record; ids
    sstable                      tables: the strict reader, the reader of columns
    ranges                       entries: an object at a path; tables of entries, and the table of a commit's ranges
    records, messages            rows of the key-value store, and the protobuf messages of rows and entries
    gc_files                     files of garbage collection: the rules, and lists of a server

The embedded lakeFS reads with the same modules, and writes tables with its own. No module here needs a server.
"""
