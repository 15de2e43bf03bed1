"""Generated repositories and the cost of collecting them."""
