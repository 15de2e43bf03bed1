"""Run state: what a complete collection leaves for the next one, so that the next one need not list every chunk."""
