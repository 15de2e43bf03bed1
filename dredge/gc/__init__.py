"""The lakeFS collector: what is listed, what is live, what may go, and how it goes."""
