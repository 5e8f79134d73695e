"""Supervised UCI engines: finds, starts, queries and restarts them, with time limits, and leaves none behind."""
