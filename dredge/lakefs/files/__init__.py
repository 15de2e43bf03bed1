"""The bytes that a lakeFS server writes, which collectors read: on them rests what is live.

    addresses                    which keys an entry's address may mean
    entries, values, ident       an object under a path; identity and data of a record
    sstable                      tables: the strict reader, the reader of columns, the writer
    ranges, metaranges           tables of entries, and the table of a commit's ranges
    records, messages            rows of the key-value store, and the protobuf messages of rows and entries
    rules, prepared              files of garbage collection: the rules, and what a server prepares

The embedded lakeFS writes by the same modules; nothing here knows a server.
"""
