"""Step subtract: the candidates, which are what is listed and nothing live names."""
