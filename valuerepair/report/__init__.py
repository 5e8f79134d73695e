"""Statistics, plots, tables, and the page. The kinds of plots, for help that must not wait for matplotlib."""

OF_STORE = ("scatter", "rates", "results")
# Kind -> what it reads.
OF_FILES = {
    "training": "a net that vr train wrote",
    "match": "the PGN of a match",
    "sweep": "the folder of a vr experiment selfplay",
}
