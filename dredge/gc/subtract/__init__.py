"""Step subtract: the candidates, listed objects outside the live set."""
