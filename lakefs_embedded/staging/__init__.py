"""Changes not yet committed: staging tokens, reads through them, the commit protocol, dropping."""
