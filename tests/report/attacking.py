"""A store whose games' headers attack whoever shows them, mined with stand-ins from an archive of random games."""

from __future__ import annotations

import random
from pathlib import Path

import chess
import chess.pgn

from tests.confirm_doubles import SecondOracle, by_length, look_again
from tests.mining_doubles import mine_by_key
from valuerepair.archives.options import SampleOptions
from valuerepair.measure.labels import with_labels
from valuerepair.mining.mine import MineOptions
from valuerepair.question import Question
from valuerepair.report import page as page_module
from valuerepair.report.stats import store_stats
from valuerepair.store import view
from valuerepair.store.store import Store

# Each would set window.pwned, open a dialog or ask the network for something, if it ran anywhere.
ATTACKS = (
    "<script>window.pwned=1;alert(1)</script>",
    '"><img src=x onerror="window.pwned=2">',
    "</script><script>window.pwned=3</script>",
    "javascript:window.pwned=4",
    "<svg/onload=window.pwned=5>",
    "{{constructor.constructor('window.pwned=6')()}}${window.pwned=6}{{script}}{{words}}",
    "<!--<script><!-- --><iframe src='https://example.com/7'></iframe>",
    "<a href='https://example.com/8' onmouseover='window.pwned=8'>link</a>",
    "<style>@import url(https://example.com/9);body{background:url(https://example.com/9.png)}</style>",
    "</style></pre></template></svg><base href='//example.com/'><meta http-equiv=refresh content='0;url=//a.org'>",
    "\u2028\u2029\u202e<b>%3Cscript%3E \\u003cscript\\u003e &lt;script&gt;window.pwned=10&lt;/script&gt;",
)
ARCHIVE = "<img src=x onerror=window.pwned=11>.pgn"


def attacking_games(folder: Path, games: int = 40, plies: int = 70, seed: int = 5) -> Path:
    """An archive of random games; every header that a report may show is an attack."""
    dice, path = random.Random(seed), folder / ARCHIVE
    with path.open("w", encoding="utf-8") as file:
        for number in range(games):
            board = chess.Board()
            while not board.is_game_over() and board.ply() < plies:
                board.push(dice.choice(list(board.legal_moves)))
            moves = chess.Board().variation_san(board.move_stack)
            names = ("White", "Black", "Event", "Site", "Date", "Round", "WhiteElo", "BlackElo", "ECO", "Opening")
            for i, name in enumerate(names):
                text = ATTACKS[(number + i) % len(ATTACKS)].replace("\\", "\\\\").replace('"', '\\"')
                file.write(f'[{name} "{text}"]\n')
            file.write(f'[Result "*"]\n\n{moves} *\n\n')
    return path


def attacking_store(folder: Path, per_game: int = 8) -> Path:
    """The archive mined, and some of its candidates looked at again."""
    store = folder / "store.db"
    options = MineOptions(sample=SampleOptions(per_game=per_game))
    mine_by_key(attacking_games(folder), store, options=options)
    look_again(store, SecondOracle(by_length), limit=20, threshold=1.2)
    return store


THRESHOLD = 0.55


class Report:
    """The store, its report, and its scored rows with labels."""

    def __init__(self, folder: Path) -> None:
        self.db, self.path = attacking_store(folder), folder / "report.html"
        with Store.open(self.db) as store:
            page_module.write(store, self.path, Question(threshold=THRESHOLD))
            frame = view.frame(store)
            self.frame = with_labels(store, frame[frame["disagreement"].notna()])
            told = store_stats(store, Question(threshold=THRESHOLD))
            self.stats, self.lines = told.as_json(), told.lines()
