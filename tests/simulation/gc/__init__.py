"""Parts of the collector's world: the drawing of its histories, its setting, and accidents of the store."""
