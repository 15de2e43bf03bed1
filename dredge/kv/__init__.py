"""Rows of lakeFS's key-value store. Only this package, and that of the embedded lakeFS, imports database drivers."""
