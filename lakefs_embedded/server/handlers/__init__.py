"""Handlers, one module per kind of resource: read the arguments, call the catalog, build the response."""
