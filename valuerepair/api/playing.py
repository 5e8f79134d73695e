"""Games and their results: `selfplay`, `match`, `experiment_selfplay`, `experiment_match`."""

from __future__ import annotations

import logging
import os
import pathlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from valuerepair.api.calls import Path, finished, recorded_command, shown_progress
from valuerepair.errors import UsageError
from valuerepair.files import check_output
from valuerepair.question import DEFAULT_THRESHOLD

if TYPE_CHECKING:
    from valuerepair.play.experiment import Experiment, ExperimentOptions, Row
    from valuerepair.play.match import MatchEnd, MatchOptions
    from valuerepair.play.selfplay import SelfplayEnd
    from valuerepair.report.experiment import ExperimentTable
    from valuerepair.training.selfplay import SelfplayOptions

log = logging.getLogger(__name__)


def selfplay(
    book: Path,
    output: Path = "selfplay.pgn",
    store: Path | None = "valuerepair.db",
    options: SelfplayOptions | None = None,
    *,
    quiet: bool = True,
) -> SelfplayEnd:
    """Plays a game from each line of a book, and writes the games to the PGN file `output`: `vr selfplay`.

    `book` is a PGN book that lc0 can read, or an EPD file. `options` say who plays and how, as in
    ``SelfplayOptions(net="my-net.pb.gz", nodes=800, training="chunks")``. A `store`, made if missing, keeps the games,
    too; training records of a game end at the first position that it holds out. `quiet`: no progress on standard
    error.

    The same call resumes an interrupted one. An interruption (Ctrl-C) raises Interrupted; all finished games are kept.
    Returns the `SelfplayEnd`, all `games` of the run; `as_json()` has their figures, and `lines()` are the output of
    `vr selfplay`. Raises ValueRepairError and UsageError.
    """
    from valuerepair.training.selfplay import SelfplayOptions, play_book

    paths = os.fspath(book), os.fspath(output)
    command = recorded_command("selfplay", paths[0], "-o", paths[1])
    store_path = None if store is None else os.fspath(store)
    with shown_progress("Self-play", "games", quiet=quiet) as progress:
        end = play_book(
            *paths,
            options or SelfplayOptions(),
            store=store_path,
            command=command,
            progress=progress,
        )
    if end.interrupted:
        log.info(f"{paths[1]}: {len(end.games):,} of {end.planned:,} games; run the same command again to resume")
    return finished(end, end.interrupted)


def match(
    a: str, b: str, output: Path = "match.pgn", options: MatchOptions | None = None, *, quiet: bool = True
) -> MatchEnd:
    """Plays a match of two sides, and writes the games to the PGN file `output`: `vr match`.

    A side is ``net=my-net.pb.gz,nodes=100`` or an engine, ``stockfish:nodes=1000`` or ``/path/engine``, with a limit of
    its own or that of `options`, which are those of the command, as in ``MatchOptions(games=200, nodes="100",
    openings="book.pgn", sprt="elo0=0,elo1=5")``. `quiet`: no progress on standard error.

    The same call resumes an interrupted one, and continues the match if it has more games. An interruption (Ctrl-C)
    raises Interrupted; all finished games are kept. Returns the `MatchEnd`, whose `standing` has the results, Elo with
    intervals (`levels`) and the verdict of the test; `as_json()` and `lines()` are the output of `vr match`. Raises
    ValueRepairError and UsageError.
    """
    from valuerepair.play.match import MatchOptions, play_sides

    with shown_progress("match", "games", quiet=quiet) as progress:
        end = play_sides((a, b), options or MatchOptions(), os.fspath(output), progress=progress)
    return finished(end, end.interrupted)


def experiment_selfplay(
    settings: Sequence[str] = (),
    folder: Path = "experiment",
    options: ExperimentOptions | None = None,
    *,
    match: str | None = None,
    match_games: int = 200,
    quiet: bool = True,
) -> ExperimentTable:
    """Sweeps settings of the search in self-play: `vr experiment selfplay`.

    A setting is written as a side of `vr match`, with parameters of the built-in search: ``n_scl=5,nodes=100``; the
    default is a range of values of ``n_scl`` and ``temperature``. The setting `match`, one of them, then plays
    `match_games` games against the temperature that has the same (wins + losses) / draws. `folder` has games, table and
    plot; the same call resumes there. An interruption (Ctrl-C) raises Interrupted; all finished games are kept.

    Returns the `ExperimentTable`, whose `rows` are those of `play.experiment.selfplay_row`, with intervals at 0.95 over
    openings. Raises UsageError and ValueRepairError.
    """
    from valuerepair.play.experiment import DEFAULT_SETTINGS, name_of, setting_of
    from valuerepair.report.experiment import match_lines, selfplay_lines

    sweep = [setting_of(text) for text in dict.fromkeys(settings or DEFAULT_SETTINGS)]
    target = setting_of(match) if match is not None else None
    if target is not None and name_of(target) not in map(name_of, sweep):
        raise UsageError(f"--match {match}: is not one of the settings of the sweep")
    experiment = _experiment(folder, options, quiet)
    rows = [experiment.selfplay(setting, DEFAULT_THRESHOLD) for setting in sweep]
    lines = selfplay_lines(rows)
    if target is not None and not experiment.stopped:
        if (equal := experiment.equal_temperature(target, rows)) is None:
            lines += ["", "no match: (w + l) / d of the setting, or of every temperature, is not a number above 0"]
        else:
            temperature, is_enclosed = equal
            match_row = replace(experiment, games=match_games).match(target, setting_of(f"temperature={temperature:g}"))
            lines += ["", *match_lines([match_row])]
            if not is_enclosed:
                lines.append("the setting's ratio lies outside those of the temperatures: the nearest one is used")
            rows.append(match_row)
    return _write_results(experiment, rows, lines)


def experiment_match(
    sides: Sequence[str],
    folder: Path = "experiment",
    options: ExperimentOptions | None = None,
    *,
    against: str = "name=plain",
    odds: bool = False,
    quiet: bool = True,
) -> ExperimentTable:
    """Matches each of several sides with the same opponent, `against`: `vr experiment match`.

    A side is written as for `vr match`. With `odds` each opening, which must give odds, is played once, and the side
    has the weaker colour. `folder` has games, table and plot; the same call resumes there. An interruption (Ctrl-C)
    raises Interrupted; all finished games are kept.

    Returns the `ExperimentTable`, whose `rows` are those of `play.experiment.match_row`. Raises UsageError and
    ValueRepairError.
    """
    from valuerepair.play.lineup import parse_side
    from valuerepair.report.experiment import match_lines

    players, opponent = [parse_side(text) for text in dict.fromkeys(sides)], parse_side(against)
    experiment = _experiment(folder, options, quiet)
    rows = [experiment.match(side, opponent, odds=odds) for side in players]
    return _write_results(experiment, rows, match_lines(rows))


def _experiment(folder: Path, options: ExperimentOptions | None, quiet: bool) -> Experiment:
    """The experiment of all settings. Raises UsageError if one of its files would replace a file of another kind."""
    from valuerepair.play.experiment import Experiment, ExperimentOptions, choose_openings
    from valuerepair.report.experiment import PLOT, TABLE

    path, options = pathlib.Path(folder), options or ExperimentOptions()
    if path.exists():
        check_output(path / TABLE)
        check_output(path / PLOT)
    openings, book = choose_openings(options.openings, options.lines)
    return Experiment(path, openings, book, options.nodes, options.games, options.net, quiet=quiet)


def _write_results(experiment: Experiment, rows: Sequence[Row], lines: Sequence[str]) -> ExperimentTable:
    """Writes table and plot, with the earlier rows of the folder. Raises Interrupted after Ctrl-C."""
    from valuerepair.report import plots, style
    from valuerepair.report.experiment import PLOT, ExperimentTable, write_table

    all_rows = write_table(rows, experiment.folder)
    style.save(plots.sweep_of(all_rows), experiment.folder / PLOT)
    if experiment.stopped:
        log.info(f"{experiment.folder}: stopped; all finished games are kept; run the same command again to resume")
    return finished(ExperimentTable(rows, lines), experiment.stopped)
