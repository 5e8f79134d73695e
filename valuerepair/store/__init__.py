"""The store: one SQLite file with positions, the values of nets and judges, failures, runs, settings."""

DEFAULT_PATH = "valuerepair.db"


def db_option(path: str) -> list[str]:
    """``--db PATH`` as words of a command; empty for the store that commands read without it."""
    return [] if path == DEFAULT_PATH else ["--db", path]
