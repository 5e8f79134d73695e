"""The options of `vr books` that say what goes into a book."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_CHOSEN = (
    click.option("--threshold", "--min-threshold", default=0.55, show_default=True, help="Least |net Q - deep Q|."),
    click.option("--max", "maximum", default=2.0, show_default=True, help="Largest |net Q - deep Q|."),
    click.option("--net", help="Net: its name, file or SHA-256.  [default: that of the most scored positions]"),
    click.option("--oracle", "--deep", help="Deep search: its label or digest.  [default: that of the most]"),
    click.option(
        "--q-from", type=click.Choice(["cp", "wdl"]), default="cp", show_default=True, help="Deep Q's source."
    ),
    click.option(
        "--sign",
        type=click.Choice(["optimistic", "pessimistic", "both"]),
        default="both",
        show_default=True,
        help="Keep positions that the net finds better (optimistic) or worse than the deep search does.",
    ),
    click.option(
        "--confirmed", is_flag=True, help="Keep what a second look (vr confirm) found the search right about."
    ),
    click.option("--label", "labels", multiple=True, help="Keep what has this label (vr label); of several, all."),
    click.option("--max-abs-deep-q", type=float, default=None, help="Leave out |deep Q| over this (decided games)."),
    click.option(
        "--near-duplicates",
        type=click.Choice(["game", "book", "keep"]),
        default="game",
        show_default=True,
        help="Of positions with the same material and pawns keep the first of a game, the first of all, or every one.",
    ),
    click.option("--per-game-limit", type=int, default=None, help="At most so many positions of one game."),
    click.option("--limit", type=int, default=None, help="At most so many positions, holdout included, parents not."),
    click.option(
        "--order",
        type=click.Choice(["disagreement", "shuffled"]),
        default="disagreement",
        show_default=True,
        help="Worst first, or shuffled by --seed; limits take the first.",
    ),
    click.option(
        "--holdout", type=float, default=0.0, show_default=True, help="Share kept apart in holdout.pgn and holdout.epd."
    ),
    click.option(
        "--holdout-by",
        type=click.Choice(["game", "opening", "material"]),
        default="game",
        show_default=True,
        help="What is kept apart: whole games, or whole families.",
    ),
    click.option(
        "--parents",
        default=0,
        show_default=True,
        help="Also write the positions so many plies before each, with less weight.",
    ),
    click.option(
        "--softness",
        default=0.1,
        show_default=True,
        help="Of the weight's edge at the threshold, in Q; 0: all weigh 1.",
    ),
    click.option(
        "--repeat-by-weight", type=int, default=None, help="Write what weighs 1 so many times, less the rest."
    ),
    click.option(
        "--form",
        type=click.Choice(["moves", "fen"]),
        default="moves",
        show_default=True,
        help="Entries as moves from the initial position where lc0 can read them, or all as FEN.",
    ),
    click.option("--seed", default=0, show_default=True, help="For --order shuffled, --holdout, --repeat-by-weight."),
)


def book_options(command: Command) -> Command:
    """Adds the options that `valuerepair.books.BookOptions` has, all but alpha, which is a word or a number."""
    for option in reversed(_CHOSEN):
        command = option(command)
    return command
