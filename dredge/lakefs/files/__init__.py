"""Which commits stay active, by rules."""
