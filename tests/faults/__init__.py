"""Faults made on purpose: ``pytest -m faults``. What each costs goes into the table of docs/reliability.md."""
