"""The committed content of a repository: read, compared, changed, merged and written."""
