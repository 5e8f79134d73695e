"""Speed of writing training records: whole games of searches against lc0's compression of finished records alone."""

from __future__ import annotations

import tempfile
from itertools import groupby

from benchmarks.comparison import BenchData, Comparison, compare
from benchmarks.search import table_evaluator
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.positions import Position
from valuerepair.mcts.forest import Forest
from valuerepair.play.game import DRAW_AGREED, GameRecord, Thought
from valuerepair.training.records import ChunkWriter, RecordFacts, compressed, game_records

GAMES, TREES, NODES, REPEATS = 40, 64, 100, 2
LC0_LEVEL = 6  # gzopen's, which lc0's TrainingDataWriter leaves as it is


def chunks(data: BenchData) -> Comparison:
    """Records/s from searched games to files, 100 visits a move, against gzip at lc0's level of the same records."""
    games, facts = searched_games(data.archive), RecordFacts()
    finished = [game_records(game, facts).tobytes() for game in games]
    records = sum(len(game.thoughts) for game in games)

    def ours() -> float:
        for _ in range(REPEATS):
            with tempfile.TemporaryDirectory(prefix="vr-bench-") as folder:
                writer = ChunkWriter(folder, facts)
                for game in games:
                    writer.write(game)
        return REPEATS * records

    def theirs() -> float:
        for _ in range(REPEATS):
            for content in finished:
                compressed(content, LC0_LEVEL)
        return REPEATS * records

    return compare("training-records", "records", "gzip as lc0 does it", ours, theirs, target=0.8, floor=20_000)


def searched_games(archive: str) -> list[GameRecord]:
    """The first games of an archive with a search of every position by an evaluator that takes next to no time."""
    positions: list[Position] = []
    games = 0
    for batch in sample([archive], SampleOptions(per_game=None, min_ply=0), ReadReport()):
        positions += list(batch)
        games = len({position.origin.game for position in positions})
        if games > GAMES:
            break
    forest = Forest(table_evaluator(), trees=TREES, nodes=NODES)
    searches = dict(forest.search(positions, NODES))
    grouped = groupby(range(len(positions)), lambda i: positions[i].origin.game)
    found = []
    for number, (_, members) in zip(range(GAMES), grouped, strict=False):
        of_game = list(members)
        thoughts = tuple(Thought(positions[i].origin.played or "", search=searches[i]) for i in of_game)
        first = positions[of_game[0]]
        found.append(GameRecord(number, number, first.start_fen, first.moves, thoughts, "", "", "1/2-1/2", DRAW_AGREED))
    return found
