"""The store: one SQLite file with every position, net value, deep value, fit, run and failure."""

DEFAULT_PATH = "valuerepair.db"
