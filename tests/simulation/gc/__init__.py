"""Parts of the collector's world: how its histories are drawn, its setting, and what befalls the store."""
