"""Commands that make training data, and train: `vr split`, `books`, `selfplay`, `chunks`, `mix`, `train`."""

from __future__ import annotations

from typing import Any, get_args

import click

import valuerepair as vr
from valuerepair.cli.options import (
    ARCHIVE,
    DB,
    FILE,
    GAMES_FILE,
    JSON,
    NET,
    NEW_FOLDER,
    RESIGN,
    SEED,
    SET,
    device_option,
    question,
    settings_of,
    typed,
)
from valuerepair.cli.printing import fail_if_broken_off, is_quiet, print_result
from valuerepair.errors import UsageError
from valuerepair.store import DEFAULT_PATH
from valuerepair.training.options import MOST_STEPS, PASSES, POLICY, SETTINGS, SHARE_OF_GAMES, Only, TrainOptions


@click.command()
@DB
@click.option("--games", default=0.15, help="Share of games to hold out.")
@click.option("--families", default=0.10, help="Share of positions to hold out by opening or material family.")
@SEED(help="Seed of the draw of games and families.")
def split(db: str, **options: Any) -> None:
    """Choose what training never sees, to judge by: games, and families of positions.

    Games are drawn by the hash of their moves, so that games that are mined later have their part, too. Families of
    openings and of material are drawn until they hold about the given share; other positions of their games are neither
    trained on nor judged by. The values of the positions play no part in the draw. The store keeps the choice, and
    training, books and chunks leave out what is held out; without vr split they make the default one. Prints the size
    of each part.

    \b
    Example:
      vr split
      vr split --games 0.2 --families 0
    """
    print_result(lambda: vr.split(db, **options))


@click.command()
@DB
@question()
@click.option("--confirmed", is_flag=True, help="Keep positions where vr confirm found the search right.")
@click.option(
    "--label", multiple=True, help="Keep positions with this label, or with all of several (docs/methods.md)."
)
@click.option("--limit", type=int, help="Write at most this many positions, the largest disagreements; parents apart.")
@click.option("--parents", default=0, help="Also write the positions up to this many plies earlier, with less weight.")
@click.option("-o", "--output", type=NEW_FOLDER, default="valuerepair-books", help="Folder for the files.")
def books(question: vr.Question | vr.Worst, output: str, db: str, label: tuple[str, ...], **chosen: Any) -> None:
    """Write opening books from the candidates in the store.

    Writes book.pgn for lc0 self-play, book.epd for other tools, and manifest.json, which says how they were made.
    Positions that vr split holds out are left out. At most five positions are of one game, what vr expand reached from
    it included.

    \b
    Example:
      vr books --threshold 0.55
      vr books --threshold 0.3 -o repair-books
      vr books --threshold 0.55 --confirmed --parents 2
    """
    options = vr.BookOptions(labels=label, **chosen)
    print_result(lambda: vr.write_books(db, output, question, options, quiet=is_quiet()), of_files=True)


@click.command()
@click.argument("book", type=ARCHIVE, metavar="BOOK")
@click.option(
    "-o",
    "--output",
    type=GAMES_FILE,
    default="selfplay.pgn",
    help="PGN of the games; continues an earlier run.",
)
@NET
@click.option("--nodes", type=int, default=800, help="Visits of the root per move.")
@click.option(
    "--training",
    type=NEW_FOLDER,
    metavar="DIR",
    help="Write lc0 training records to this folder, one chunk per game.",
)
@click.option("--repeat", type=int, default=1, help="Games from each line of the book.")
@click.option("--temperature", metavar="T", help="Draw moves by visits^(1/T).  [default: 0, the best move]")
@SET
@RESIGN
@click.option("--engine", type=click.Choice(["mcts", "lc0"]), default="mcts", help="Who plays.")
@SEED(help="Seed for temperature and noise.")
@DB
@device_option()
@JSON
def selfplay(book: str, **options: Any) -> None:
    """Play a game from each line of a book, by default at temperature 0, so that results are as accurate as possible.

    BOOK is a PGN book that lc0 can read, or an EPD file. Games go to a PGN file as they end, with Q, W/D/L and nodes of
    each move, and to the store; vr stats then compares results with the values. The same command continues a run that
    was stopped. --set takes parameters of the search, and two rules of the games: syzygy=FOLDERS, whose tables decide
    games, and max_plies=N, after which they end undecided (450; 0: no limit). With --resign a fifth of the games is
    played on, which shows how often resigning would be wrong. Training records of a game end where it reaches what the
    store holds out (vr split).

    \b
    Example:
      vr selfplay valuerepair-books/book.pgn --net my-net.pb.gz --nodes 800
      vr selfplay book.pgn --nodes 200 --repeat 4 --temperature 0.5 --resign 2
      vr selfplay book.pgn --nodes 800 --training chunks --set syzygy=/data/syzygy
      vr selfplay book.pgn --engine lc0 --nodes 800 --training chunks
      vr selfplay book.pgn --nodes 100 --set max_plies=200 -o trial.pgn
    """
    from valuerepair.play.referee import NO_RESIGN_SHARE, RULE_SETTINGS

    if options["engine"] == "lc0":
        for option, why in (("device", "lc0 chooses its own backend"), ("seed", "lc0 cannot be given one")):
            if typed(option):
                raise UsageError(f"--engine lc0: --{option} is for --engine mcts; {why}")
    settings, resign = settings_of(options, ("temperature",)), options["resign"]
    share = NO_RESIGN_SHARE if resign and options["engine"] == "mcts" else 0.0
    of_games = {name: settings.pop(name) for name in RULE_SETTINGS if name in settings}
    names = ("engine", "net", "nodes", "repeat", "training", "seed", "device")
    selfplay_options = vr.SelfplayOptions(
        **{name: options[name] for name in names},
        params=vr.SearchParams().with_settings(settings),
        rules=vr.Rules(resign=resign, no_resign_share=share).with_settings(of_games),
    )
    store, output, quiet = options["db"], options["output"], is_quiet() or options["json"]
    print_result(lambda: vr.selfplay(book, output, store, selfplay_options, quiet=quiet), options["json"])


@click.command()
@click.argument("sources", nargs=-1, type=ARCHIVE, metavar="[SOURCES]...")
@click.option("-o", "--output", type=NEW_FOLDER, required=True, metavar="DIR", help="A new or empty folder.")
@click.option(
    "--net",
    metavar="NET",
    help="Net that determines the input format and gives the policy of --policy net.  [default: for a store its own]",
)
@click.option(
    "--db",
    envvar="VR_DB",
    type=FILE,
    help=f"The store with the judge's values.  [default: for games none, else {DEFAULT_PATH}]",
)
@click.option(
    "--policy",
    metavar="played|net|judge[:SHARE]",
    help="Policy target: the move played, the net's policy, the judge's move, or a share of it in the default.  "
    "[default: of games played, of a store net]",
)
@click.option(
    "--result",
    type=click.Choice(["game", "judge"]),
    help="result_q: the game's result, or 1, 0 or -1 drawn by the judge's W/D/L.  [default: of a store judge]",
)
@click.option("--min-elo", type=int, help="Only games in which both players have at least this rating.  [default: any]")
@click.option("--time-control", help="Only games at these speeds (blitz,rapid) or clocks (180+2).  [default: any]")
def chunks(sources: tuple[str, ...], output: str, **options: Any) -> None:
    """Write lc0 training chunks with the judge's values: of games, of chunks that exist, or of the store alone.

    SOURCES are games as in vr mine: each with a result becomes a chunk, with the game's result, and in best_q and
    root_q the value that the store or the game has of the position. Or SOURCES are lc0 training chunks of version 6 and
    plain tars of them: records of judged positions get the judge's values, all others stay as they are. Without SOURCES
    each judged position of the store becomes a chunk of one record. What the store holds out (vr split) is left out.
    Ctrl-C stops; the same command resumes after the last complete tar.

    \b
    Example:
      vr chunks games.pgn.zst -o normal-chunks
      vr chunks lichess.pgn.zst --min-elo 2200 --time-control rapid,classical --net my-net.pb.gz -o normal-chunks
      vr chunks games.pgn.zst --db valuerepair.db --policy judge:0.5 -o judged-chunks
      vr chunks lc0-data/ -o rescored
      vr chunks -o position-chunks
    """
    games = {name: value for name in ("min_elo", "time_control") if (value := options.pop(name)) is not None}
    result = print_result(
        lambda: vr.write_chunks(
            sources,
            output,
            store=options.pop("db"),
            sample=vr.SampleOptions(**games) if games else None,
            quiet=is_quiet(),
            **options,
        ),
        of_files=True,
    )
    fail_if_broken_off(result.broken_off)


@click.command()
@click.option(
    "--repair", multiple=True, type=FILE, required=True, metavar="DIR", help="Chunks of games from repair books."
)
@click.option("--normal", multiple=True, type=FILE, required=True, metavar="DIR", help="Chunks of other self-play.")
@click.option("--share", type=float, default=SHARE_OF_GAMES, help="Share of repair games in the mixture.")
@click.option("-o", "--output", type=NEW_FOLDER, required=True, metavar="DIR", help="A new or empty folder.")
@SEED(help="Seed of the choice and order of games.")
def mix(repair: tuple[str, ...], normal: tuple[str, ...], share: float, output: str, seed: int) -> None:
    """Mix training chunks of repair games with those of normal games, in a given share.

    DIR is a folder of lc0 training chunks of version 6 (.gz) and plain tars of them, or one such tar. The mixture is
    the largest with this share, in tars for lczero-training's loader. Repair games have fewer positions, as the book's
    plies are not recorded, so the share is printed by games and by positions. Games are drawn and shuffled by seed and
    content; manifest.json says what is in the mixture.

    \b
    Example:
      vr mix --repair repair-chunks --normal lc0-data --share 0.40 -o mixture
    """
    result = print_result(
        lambda: vr.mix(repair, normal, output, share=share, seed=seed, quiet=is_quiet()), of_files=True
    )
    fail_if_broken_off(result.broken_off)


_DEFAULTS = TrainOptions()


@click.command()
@click.argument("chunks", type=ARCHIVE, nargs=-1, metavar="[CHUNKS]...")
@click.option("--net", required=True, metavar="NET", help="The net to train, a .pb.gz.")
@click.option(
    "-o",
    "--output",
    type=FILE,
    required=True,
    metavar="FILE",
    help="The new net, a .pb.gz.",
)
@click.option("--db", type=FILE, envvar="VR_DB", help="Learn the judge's values for the positions of this store.")
@click.option("--only", type=click.Choice(get_args(Only)), default="all", help="Which parameters to train.")
@click.option(
    "--steps", type=int, help=f"Training steps.  [default: {PASSES} passes over the positions, at most {MOST_STEPS:,}]"
)
@click.option("--lr", default=_DEFAULTS.lr, help="Learning rate after the warm-up.")
@click.option(
    "--policy",
    metavar="net|judge[:SHARE]",
    help=f"Policy target of the store's positions: the old policy, with a share for the judge's best move.  "
    f"[default: {POLICY}]",
)
@click.option("--control", is_flag=True, help="Learn no candidates: what training does without them.")
@click.option(
    "--set",
    multiple=True,
    metavar="NAME=VALUE",
    help=f"A training parameter ({', '.join(SETTINGS)}); may be repeated.",
)
@SEED(help="Seed for the order of the positions.")
def train(
    chunks: tuple[str, ...],
    net: str,
    output: str,
    db: str | None,
    **options: Any,
) -> None:
    """Train an lc0 net: an old .pb.gz becomes a new one, on a CPU or a GPU.

    CHUNKS are folders of lc0 training chunks of version 6 (.gz) and uncompressed tars of them, as vr mix writes them;
    --db trains on mined positions, without self-play, and leaves out what the store holds out (vr split), in CHUNKS,
    too. During training the net is judged on held-out games, by all their
    positions and not only by candidates. The best net is written, with as much of its change as the held-out games
    support; lc0 reads the file again to check it. A file .training.json beside it has the options, the curve and what
    was written. Stop with Ctrl-C; the same command continues. Needs pip install 'valuerepair[train]'.

    \b
    Example:
      vr train mixture --net old.pb.gz -o new.pb.gz
      vr train --db valuerepair.db --net old.pb.gz -o new.pb.gz
      vr train --db valuerepair.db --policy judge:0.3 --set amplitude=0.5 --net old.pb.gz -o new.pb.gz
      vr train --db valuerepair.db --control --net old.pb.gz -o control.pb.gz
      vr train --db valuerepair.db --set disagreement_weight=0.5 --net old.pb.gz -o new.pb.gz
      vr train mixture --net old.pb.gz -o new.pb.gz --only value --steps 500 --lr 5e-5 --set q_ratio=1
    """
    settings = settings_of({"set": options.pop("set")}, listed="`vr train --help` names them all")
    train_options = TrainOptions(**options).with_settings(settings)
    result = print_result(lambda: vr.train(net, output, chunks, db, options=train_options, quiet=is_quiet()))
    fail_if_broken_off(result.broken_off)
