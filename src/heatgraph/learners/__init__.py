"""Estimators: validate, delegate, store."""
