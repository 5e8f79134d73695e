"""`vr`, and `python -m valuerepair`."""

import os

from valuerepair import stop

stop.install()  # before the other imports, which take a while


def main() -> None:
    """Runs `vr`. Python's own ending would wait for threads, or abort in them, that are deep in compiled code."""
    from valuerepair.cli import cli
    from valuerepair.cli.ending import run

    os._exit(run(cli))


if __name__ == "__main__":
    main()
