"""Signals on a cluster: coded where they are, known here by their sums."""
