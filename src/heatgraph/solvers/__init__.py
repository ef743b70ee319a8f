"""Algorithms that know neither files nor users."""
