"""Fuzzed: what engines say to us, and what a program says to our own UCI server."""

from __future__ import annotations

import re
from contextlib import suppress

from tests.fuzz.inputs import fits_columns


def engine_seeds() -> list[bytes]:
    return [
        b"id name Fake 1\noption name Hash type spin default 16 min 1 max 33554432\n"
        b"option name Style type combo default solid var solid var very wild\nuciok\nreadyok\n",
        b"info depth 12 seldepth 20 multipv 1 score cp 31 wdl 300 400 300 nodes 1000 nps 9 time 5 pv e2e4 e7e5\n"
        b"info depth 13 score cp 29 lowerbound nodes 2000\ninfo string bestmove h1h8\nbestmove e2e4 ponder e7e5\n",
        b"info depth 3 score mate -2 nodes 77 pv e7e8q\ninfo nodes 99 time 1\nbestmove (none)\n",
    ]


def run_engine(data: bytes) -> None:
    """What an engine says. A report may be refused with ValueError, which the engine's keeper expects."""
    from valuerepair.engines.uci import SearchReader, parse_option

    reader = SearchReader()
    lines = data.decode("utf-8", "replace").split("\n")
    for line in lines:
        option = parse_option(line)
        if option is not None:
            for value in ("5", line):
                option.setting(option.spelled(value))
        reader.add(line)
    for line in lines[-3:]:
        with suppress(ValueError):
            report = reader.report(line, 1)
            scores, effort = (report.cp, report.mate), (report.depth, report.seldepth)
            assert fits_columns(*scores, *effort, report.nodes, report.time_ms), report


def server_seeds() -> list[bytes]:
    return [
        b"uci\nisready\nucinewgame\nposition startpos moves e2e4 e7e5\ngo nodes 8\n",
        b"setoption name MinibatchSize value 4\nposition fen 6k1/5ppp/8/8/8/8/8/R6K w - - 0 1\n"
        b"go nodes 12 searchmoves a1a8\n",
        b"setoption name NScl value 3\ngo wtime 10 btime 10 winc 1 binc 1 movestogo 3\nstop\nponderhit\n",
        b"go movetime 3\nsetoption name CPuct value 2.5\ndebug on\ngo infinite\n",
    ]


def run_server(data: bytes) -> None:
    """Our own UCI server: every `go` is answered by one `bestmove`. Searches are small."""
    from tests.uci_fake_net import open_material_net
    from valuerepair.mcts.uci import UciServer

    lines = [line for line in data.decode("utf-8", "replace").splitlines() if not _too_long(line)][:12]
    going = sum(line.split()[:1] == ["go"] for line in lines)
    if any(line.split()[:1] == ["quit"] for line in lines):
        return
    said: list[str] = []
    UciServer(said.append, open_net=open_material_net).run(iter([*lines, "stop"]))
    assert sum(line.startswith("bestmove ") for line in said) == going, (lines, said)
    assert not any("\n" in line or _UNFORESEEN.match(line) for line in said), said


def _too_long(line: str) -> bool:
    """A legal wish for a long search or much memory is no fault."""
    words = line.split()
    asks_much = words[:1] == ["go"] and any(len(word) > 2 and word.isdecimal() for word in words)
    return asks_much or (words[:1] == ["setoption"] and any(word.lower() in _COSTLY for word in words))


# What the server says of an exception that is no ValueRepairError.
_UNFORESEEN = re.compile(r"info string error: [A-Z]\w*(?:Error|Exception|Interrupt)\b")
_COSTLY = ("hash", "threads", "weights", "device", "weightsfile", "syzygypath", "moveoverhead", "nodespermove")
