"""The terms of the objective, and the set of valid Laplacians."""
