"""What each call does: read its arguments, ask the catalog, shape the answer. One module a noun, no rules."""
