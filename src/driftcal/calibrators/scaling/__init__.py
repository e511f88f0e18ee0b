"""Parametric calibrators: temperature, ensemble temperature, vector, Dirichlet, Platt and beta scaling."""
