"""Plays the games of this folder: nets sampling from their policy, against each other and against Stockfish.

    python data/make_games.py --games 300 --seed 1 -o data/games.pgn.zst
    python data/make_games.py --games 200 --seed 2 --temperature 2 --nets-only -o data/wild.pgn.zst

Every game has a random generator of its own, seeded by (seed, number), and Stockfish starts each move with an empty
hash table, so the games do not depend on how many are played at once. Another processor or ONNX Runtime may round
a prior differently and so lead a game elsewhere.
"""

from __future__ import annotations

import argparse
import datetime
import io
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import chess
import chess.engine
import chess.pgn
import numpy as np
import zstandard

from valuerepair.chess.positions import Position, PositionBatch, decode_move
from valuerepair.engines.spec import find_engine
from valuerepair.errors import ValueRepairError
from valuerepair.nets.net import Net, open_net
from valuerepair.nets.registry import DEFAULT_NET

OPENING_PLIES = 8  # played by the first net for both sides, so that Stockfish does not begin every game alike
OPENING_TEMPERATURE = 1.0
STOCKFISH_NODES = (50, 200, 1000)
MAX_PLIES = 300  # a game that long is broken off, its result is "*"


@dataclass(frozen=True)
class Player:
    """A net (by its place in the list of nets) or Stockfish with a node limit."""

    name: str
    net: int | None = None
    nodes: int = 0


@dataclass
class Game:
    """One game being played; `colours` are the players of White and Black."""

    number: int
    colours: tuple[Player, Player]
    rng: np.random.Generator
    board: chess.Board = field(default_factory=chess.Board)

    @property
    def mover(self) -> Player:
        return self.colours[0 if self.board.turn == chess.WHITE else 1]

    @property
    def net_to_move(self) -> int | None:
        """The net that chooses the next move; None when Stockfish does."""
        return 0 if len(self.board.move_stack) < OPENING_PLIES else self.mover.net

    @property
    def result(self) -> str | None:
        """The result by the rules of chess, ``*`` for a game broken off, None while it goes on."""
        outcome = self.board.outcome(claim_draw=False)
        if outcome is not None:
            return outcome.result()
        if self.board.is_repetition(3) or self.board.halfmove_clock >= 100:
            return "1/2-1/2"
        return "*" if len(self.board.move_stack) >= MAX_PLIES else None


def pairings(nets: Sequence[str], stockfish: str | None) -> list[tuple[Player, Player]]:
    """Every net against itself and the later ones, and, with both colours, against Stockfish at each node limit."""
    players = [Player(name, net=i) for i, name in enumerate(nets)]
    engines = [Player(f"{stockfish}, {nodes} nodes", nodes=nodes) for nodes in STOCKFISH_NODES if stockfish]
    pairs = [(a, b) for i, a in enumerate(players) for b in players[i:]]
    for player in players:
        for engine in engines:
            pairs += [(player, engine), (engine, player)]
    return pairs


def play(
    games: list[Game], nets: Sequence[Net], temperature: float, stockfish: chess.engine.SimpleEngine | None
) -> None:
    """Plays all games to their ends, one move of each a round; positions of one net go through it as one batch."""
    running = games
    while running:
        for i, net in enumerate(nets):
            waiting = [game for game in running if game.net_to_move == i]
            if waiting:
                sample_moves(net, waiting, temperature)
        for game in running:
            # A game whose net moved above has the other player to move now; it waits for the next round only if that
            # is a net.
            if game.result is None and game.net_to_move is None:
                assert stockfish is not None, "only with it games have such a player"
                limit = chess.engine.Limit(nodes=game.mover.nodes)
                move = stockfish.play(game.board, limit, game=object()).move
                assert move is not None, "an engine with a legal move must play"
                game.board.push(move)
        running = [game for game in running if game.result is None]


def sample_moves(net: Net, games: Sequence[Game], temperature: float) -> None:
    """Pushes one move in every game, drawn from the net's legal policy; the opening has a temperature of its own."""
    rows = [Position(g.board.fen(), moves=tuple(m.uci() for m in g.board.move_stack)) for g in games]
    moves, offsets, priors = net.priors(PositionBatch.from_positions(rows))
    for game, start, end in zip(games, offsets, offsets[1:], strict=False):
        opening = len(game.board.move_stack) < OPENING_PLIES
        p = priors[start:end].astype(np.float64) ** (1 / (OPENING_TEMPERATURE if opening else temperature))
        drawn = int(np.searchsorted(np.cumsum(p), game.rng.random() * p.sum()))
        game.board.push_uci(decode_move(int(moves[start + min(drawn, end - start - 1)])))


def as_pgn(game: Game, date: str) -> str:
    """The game with its seven tags, 80 columns."""
    record = chess.pgn.Game.from_board(game.board)
    tags = {
        "Event": "valuerepair sample games",
        "Site": "?",
        "Date": date,
        "Round": str(game.number + 1),
        "White": game.colours[0].name,
        "Black": game.colours[1].name,
        "Result": game.result or "*",
    }
    for name, value in tags.items():
        record.headers[name] = value
    if tags["Result"] == "*":
        record.headers["Termination"] = "unterminated"
    return record.accept(chess.pgn.StringExporter(columns=80, comments=False, variations=False)) + "\n\n"


def write(text: str, path: Path) -> None:
    """Compresses to a temporary name in the same folder, then renames."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(zstandard.ZstdCompressor(level=19).compress(text.encode()))
    os.replace(temporary, path)


def open_stockfish() -> chess.engine.SimpleEngine:
    """Stockfish with one thread and the smallest hash table."""
    path = find_engine("stockfish")
    if path is None:
        raise SystemExit("no stockfish on this machine (apt-get install stockfish)")
    engine = chess.engine.SimpleEngine.popen_uci(path)
    engine.configure({"Hash": 1, "Threads": 1})
    return engine


def main() -> None:
    parser = argparse.ArgumentParser(description="Plays the games of data/games.pgn.zst.")
    parser.add_argument("--net", action="append", metavar="NAME|FILE", help=f"may be repeated; default {DEFAULT_NET}")
    parser.add_argument("--temperature", type=float, default=0.7, help="of the nets' moves after the opening")
    parser.add_argument("--nets-only", action="store_true", help="Stockfish does not play")
    parser.add_argument("--games", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--date", default=datetime.date.today().strftime("%Y.%m.%d"), help="of the Date tag")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_name("games.pgn.zst"))
    options = parser.parse_args()

    try:
        nets = [open_net(spec, device="cpu") for spec in options.net or [DEFAULT_NET]]
    except ValueRepairError as error:
        raise SystemExit(str(error)) from None
    names = [net.identity.name for net in nets]
    with ExitStack() as stack:
        stockfish = None if options.nets_only else stack.enter_context(open_stockfish())
        pairs = pairings(names, stockfish and stockfish.id["name"])
        games = [Game(i, pairs[i % len(pairs)], np.random.default_rng([options.seed, i])) for i in range(options.games)]
        play(games, nets, options.temperature, stockfish)
    text = io.StringIO()
    for game in games:
        text.write(as_pgn(game, options.date))
    write(text.getvalue(), options.output)
    plies = sum(len(game.board.move_stack) for game in games)
    print(f"{options.output}: {len(games)} games, {plies} plies, {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
