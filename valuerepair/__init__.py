"""valuerepair: find the positions a chess net judges badly wrong, and make games and training data meant to repair it.

The names below are the public Python interface (docs/python.md). Each is imported on first use, so that importing the
package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from valuerepair.version import __version__ as __version__

if TYPE_CHECKING:
    from valuerepair.api import Candidate as Candidate
    from valuerepair.api import MinedStore as MinedStore
    from valuerepair.api import confirm as confirm
    from valuerepair.api import elo as elo
    from valuerepair.api import evaluate as evaluate
    from valuerepair.api import expand as expand
    from valuerepair.api import match as match
    from valuerepair.api import mine as mine
    from valuerepair.api import open_store as open_store
    from valuerepair.api import plan_match as plan_match
    from valuerepair.api import plot as plot
    from valuerepair.api import plot_remeasured as plot_remeasured
    from valuerepair.api import remeasure as remeasure
    from valuerepair.api import remeasure_suite as remeasure_suite
    from valuerepair.api import repair as repair
    from valuerepair.api import rescore as rescore
    from valuerepair.api import search as search
    from valuerepair.api import selfplay as selfplay
    from valuerepair.api import train as train
    from valuerepair.api import write_books as write_books
    from valuerepair.api import write_chunks as write_chunks
    from valuerepair.api import write_game_chunks as write_game_chunks
    from valuerepair.api import write_report as write_report
    from valuerepair.api import write_suite as write_suite
    from valuerepair.archives.options import SampleOptions as SampleOptions
    from valuerepair.books.options import BookOptions as BookOptions
    from valuerepair.chess.positions import Position as Position
    from valuerepair.chess.values import cp_to_q as cp_to_q
    from valuerepair.chess.values import fit_alpha as fit_alpha
    from valuerepair.errors import UsageError as UsageError
    from valuerepair.errors import ValueRepairError as ValueRepairError
    from valuerepair.judge.split import Split as Split
    from valuerepair.judge.split import choose_split as choose_split
    from valuerepair.judge.split import read_split as read_split
    from valuerepair.judge.split import write_split as write_split
    from valuerepair.mcts.params import SearchParams as SearchParams
    from valuerepair.nets.net import open_net as open_net
    from valuerepair.play.match import MatchOptions as MatchOptions
    from valuerepair.play.referee import Rules as Rules
    from valuerepair.question import Question as Question
    from valuerepair.report.boards import sheet as draw_boards
    from valuerepair.report.search_tree import write_tree as write_tree
    from valuerepair.report.style import house_style as house_style
    from valuerepair.runs.regret import RegretOptions as RegretOptions
    from valuerepair.runs.rejudge import RejudgeOptions as RejudgeOptions
    from valuerepair.training.game_chunks import GameChunkOptions as GameChunkOptions
    from valuerepair.training.nnue import write_file as write_positions
    from valuerepair.training.options import TrainOptions as TrainOptions
    from valuerepair.training.selfplay import SelfplayOptions as SelfplayOptions
    from valuerepair.training.store_chunks import ChunkOptions as ChunkOptions

# Name -> where it is; behind a colon what it is called there, if that differs.
_HOMES = {
    "BookOptions": "books.options",
    "Candidate": "api",
    "ChunkOptions": "training.store_chunks",
    "GameChunkOptions": "training.game_chunks",
    "MatchOptions": "play.match",
    "MinedStore": "api",
    "Position": "chess.positions",
    "Question": "question",
    "RegretOptions": "runs.regret",
    "RejudgeOptions": "runs.rejudge",
    "Rules": "play.referee",
    "SampleOptions": "archives.options",
    "SearchParams": "mcts.params",
    "SelfplayOptions": "training.selfplay",
    "Split": "judge.split",
    "TrainOptions": "training.options",
    "UsageError": "errors",
    "ValueRepairError": "errors",
    "choose_split": "judge.split",
    "confirm": "api",
    "cp_to_q": "chess.values",
    "draw_boards": "report.boards:sheet",
    "elo": "api",
    "evaluate": "api",
    "expand": "api",
    "fit_alpha": "chess.values",
    "house_style": "report.style",
    "match": "api",
    "mine": "api",
    "open_net": "nets.net",
    "open_store": "api",
    "plan_match": "api",
    "plot": "api",
    "plot_remeasured": "api",
    "read_split": "judge.split",
    "remeasure": "api",
    "remeasure_suite": "api",
    "repair": "api",
    "rescore": "api",
    "search": "api",
    "selfplay": "api",
    "train": "api",
    "write_books": "api",
    "write_chunks": "api",
    "write_game_chunks": "api",
    "write_positions": "training.nnue:write_file",
    "write_report": "api",
    "write_split": "judge.split",
    "write_suite": "api",
    "write_tree": "report.search_tree",
}
__all__ = [
    "BookOptions",
    "Candidate",
    "ChunkOptions",
    "GameChunkOptions",
    "MatchOptions",
    "MinedStore",
    "Position",
    "Question",
    "RegretOptions",
    "RejudgeOptions",
    "Rules",
    "SampleOptions",
    "SearchParams",
    "SelfplayOptions",
    "Split",
    "TrainOptions",
    "UsageError",
    "ValueRepairError",
    "__version__",
    "choose_split",
    "confirm",
    "cp_to_q",
    "draw_boards",
    "elo",
    "evaluate",
    "expand",
    "fit_alpha",
    "house_style",
    "match",
    "mine",
    "open_net",
    "open_store",
    "plan_match",
    "plot",
    "plot_remeasured",
    "read_split",
    "remeasure",
    "remeasure_suite",
    "repair",
    "rescore",
    "search",
    "selfplay",
    "train",
    "write_books",
    "write_chunks",
    "write_game_chunks",
    "write_positions",
    "write_report",
    "write_split",
    "write_suite",
    "write_tree",
]


if not TYPE_CHECKING:  # a checker that saw it would let any name pass

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        home, _, there = _HOMES[name].partition(":")
        value: object = getattr(import_module(f"{__name__}.{home}"), there or name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
