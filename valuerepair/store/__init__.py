"""The store: one SQLite file with every position, net value, deep value, fit, run and failure."""

DEFAULT_PATH = "valuerepair.db"


def db_option(path: str) -> list[str]:
    """``--db PATH`` as words of a command; empty for the store that commands read without it."""
    return [] if path == DEFAULT_PATH else ["--db", path]
