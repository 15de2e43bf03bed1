"""Reads an inventory of the bucket instead of listing it: S3 Inventory, or a table made by the user.

manifest    finds the inventory, and checks that it is complete, recent, and of this bucket
rows        downloads a file of the inventory, compares its digest, and reads it in batches

An inventory describes the past. So each collector looks up unreferenced objects of an inventory in the store before
they become candidates, like objects known only from an earlier run; see `docs/safety.md`.
"""
