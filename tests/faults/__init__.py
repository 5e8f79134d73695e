"""Faults made on purpose: ``pytest -m faults``."""
