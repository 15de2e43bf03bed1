"""An inventory of the bucket, read instead of listing it: S3 Inventory, or a table of anybody's.

manifest    finds it, and checks that it is whole, recent, and of this bucket
rows        brings a file of it to this machine, checked against its digest, and reads it in batches

An inventory says what *was* there. So what it names and nothing live names is looked up in the store before it is a
candidate (by each collector in its own way), as is all that only an earlier run knew of; `docs/safety.md` says why
that is enough.
"""
