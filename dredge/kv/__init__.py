"""Rows of lakeFS's key-value store. Only this package and the embedded lakeFS import database drivers."""
