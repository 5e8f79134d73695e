"""Supervised UCI engines: found, started, asked, timed out, restarted, and never left behind."""
