"""How many published fortresses have the label `fortress-like`, and how many other winning advantages.

    python -m tests.parity.fortresses [STORE ...]

Every fortress is mined with Stockfish at a million nodes and labelled. Of a store: how many of the positions with an
advantage such as the label asks for (at alpha 170) are ``no progress``, and the same of the candidates among them.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

import valuerepair as vr
from valuerepair.judge.labelled import with_labels
from valuerepair.judge.labels import FORTRESS_WINNING
from valuerepair.question import Question
from valuerepair.rates import wilson
from valuerepair.store.store import Store

ALPHA = 170.0
# "Achilles heel of Chess engines", a page of lczero.org of 2018: all of its fortresses that hold, at the end of the
# main line, where they stand (before its last move where that ends the game).
LCZERO = {
    "knights against bishop": "4k3/3npn2/4N2b/8/8/8/4B3/3K4 b - - 11 7",
    "rook behind pawns": "7r/1b1p4/3p4/1p1p2k1/pP1P4/P1P2PP1/1P4K1/8 b - - 8 19",
    "stalemate behind pawns": "8/8/8/7p/1p6/1p6/pP1kpB2/K6n b - - 3 16",
    "queen in prison": "5nQ1/2K1k3/3p2p1/3P1pP1/5P2/2b5/8/8 b - - 16 10",
    "Rudolph 1912": "3k4/1r2p3/r2pPp2/b1pP1Pp1/1pP3Pp/pP5P/P3K3/8 b - - 0 6",
    "bishop given": "8/8/2p5/p1Pp1k2/Pp1P4/1P3PPr/3P2K1/8 b - - 6 15",
    "bishop given for pawns": "8/6k1/8/3p1p2/Pp1PbPp1/1p4P1/1P1K4/8 b - - 4 6",
    "rook and bishop against queen": "4kb2/2p3r1/1pP1P3/pP1K1Q2/P7/8/8/8 b - - 2 97",
    "bishop against queen": "8/2p5/2Pp1k2/3Pp3/4P3/5P2/2q2BK1/8 w - - 3 6",
    "Hasek 1929": "k7/1pKN1p2/1Pp1pP2/2P1P3/3q4/8/4b3/8 w - - 3 6",
    "pawns against rook": "7r/k3p1p1/p2pPpPp/P1pP1P1P/K1P5/P7/8/8 b - - 8 10",
    "Tarasiuk 2014, the try": "8/8/7p/Q7/8/3k2p1/4n1P1/7K w - - 1 15",
    "queen in the corner": "5Kbn/5p2/5PpB/6P1/3k4/8/8/7q b - - 1 4",
    "Kasparyan 1968": "8/8/1q5p/7k/6pP/6P1/6PK/1B6 b - - 3 9",
    "queen given for pawns": "2q5/1b1k1p1K/4pP2/1pBpP3/pP1P4/P7/P7/8 b - - 12 11",
    "queen given for a knight": "6r1/6r1/2p1k3/p1pbPp1p/Pp1p1PpP/1P1P2R1/1KPQ3R/8 w - - 0 4",
    "rook given": "8/8/6k1/p3p3/Pp1pPp2/1PpP1Pp1/2P1K1P1/7r b - - 9 7",
    "bishop in the corner": "8/8/8/6p1/6Pk/6pP/6P1/4q1BK b - - 13 13",
}
# From other places: Penrose's of 2017 and a variant of it, Petrosian against Hazai of 1970 (the final position), issues
# 13455 of lila and 4103 of Stockfish, four by Kevin Bonham (chesschat.org), a game on fishtest of 2020.
OTHERS = {
    "Penrose": "8/p7/kpP5/qrp1b3/rpP2b2/pP4b1/P3K3/8 w - - 0 1",
    "Penrose, a variant": "8/p7/kpP5/qrp1b3/rpP2b2/pP2b3/P7/K7 w - - 0 1",
    "Petrosian-Hazai": "2k5/8/1p1p4/pPpPp3/2P1Pp1p/P4PbP/K2Q4/8 w - - 0 2",
    "lila 13455": "3kb3/8/8/1p1p1p1p/pPpPpPpP/P1P1P1P1/8/2BQK3 w - - 0 1",
    "Stockfish 4103": "q7/8/2p5/B2p2pp/5pp1/2N3k1/6P1/7K w - - 0 1",
    "Bonham 1": "3k4/8/8/1p2p1p1/1P2P1P1/1P2PBP1/1P2P3/2K5 w - - 0 1",
    "Bonham 2": "3kn3/8/8/1p2p1p1/1P2P1P1/1P2PBP1/1P2P3/2K5 w - - 0 1",
    "Bonham 3": "2k5/8/8/1p1p1p1p/1P1P1P1P/8/1B6/2K5 w - - 0 1",
    "Bonham 4": "3k4/8/7p/6p1/1p2p1P1/1Pp1P1P1/B1P1P1P1/2K5 w - - 0 1",
    "fishtest": "6k1/2p4r/1p1q2p1/rPpNp1Pn/P1P1Pp2/1KQP4/5P1R/R7 w - - 0 1",
}


def labels_of_fens(fens: Iterable[str], nodes: int, folder: Path) -> pd.Series[str]:
    """The label of each of these positions (by its placement), searched to so many nodes with a rung on the way."""
    (folder / "some.epd").write_text("".join(f"{fen}\n" for fen in fens))
    deep, ladder = f"stockfish:nodes={nodes}", "10000"
    vr.mine(folder / "some.epd", folder / "some.db", deep=deep, screen=f"{ladder},audit=1", workers=2)
    found = _labelled(folder / "some.db").set_index("fen")["fortress_like"]
    by_placement: pd.Series[str] = found.rename(lambda fen: fen.split()[0])
    return by_placement


def _labelled(db: str | Path) -> pd.DataFrame:
    with Store.open(db) as store:
        return with_labels(store, store.frame(Question(alpha=ALPHA)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stores", nargs="*")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = labels_of_fens([*LCZERO.values(), *OTHERS.values()], options.nodes, Path(folder))
    for title, suite in (("lczero.org", LCZERO), ("others", OTHERS)):
        words = {name: found[fen.split()[0]] for name, fen in suite.items()}
        print(f"{title}: {sum(map(bool, words.values()))} of {len(suite)}")
        print("\n".join(f"  {name}: {word}" for name, word in words.items()))
    for path in options.stores:
        frame = _labelled(path)
        ahead = frame[(frame["deep_q"].abs() >= FORTRESS_WINNING) & frame["mate"].isna()]
        for name, rows in (("won", ahead), ("candidates", ahead[ahead["disagreement"].abs() >= 0.55])):
            stuck = int((rows["fortress_like"] == "no progress").sum())
            print(f"{path}, {name}: {wilson(stuck, len(rows)) if len(rows) else 'none'}")


if __name__ == "__main__":
    main()
