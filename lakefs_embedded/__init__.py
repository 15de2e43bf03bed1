"""lakeFS's data model: the bytes a server writes and the rules it follows."""
