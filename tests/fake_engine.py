"""A UCI engine that misbehaves as told on its command line: ``fake_engine.py WHAT[=VALUE]...``.

It knows no chess: its best move is e2e4 (or ``best=MOVE``), its score the length of the position line, so that an
answer can be told from another's. ``x-on=TEXT`` does x when the position line contains TEXT, with ``at=N`` once it has
at least N moves. ``id=NAME`` is its name, ``log=FILE`` gets the lines that it reads, ``tabs`` separates words. With
``play`` (and python-chess) it plays legal moves: mate if it can, else one by the position.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import chess

OPTIONS = dict(a.partition("=")[::2] for a in sys.argv[1:])


def say(text: str) -> None:
    if "tabs" in OPTIONS and not text.startswith("option "):
        text = "\t" + text.replace(" ", " \t")
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def wanted(what: str, position: str) -> bool:
    moves = position.partition(" moves ")[2].split()
    return what in OPTIONS and OPTIONS[what] in position and len(moves) >= int(OPTIONS.get("at", 0))


def once(path: str) -> bool:
    """True the first time, in whatever process."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def handshake() -> None:
    if "silent" in OPTIONS:
        time.sleep(600)
    if "garbage" in OPTIONS:
        sys.stdout.buffer.write(b"\xff\xfe\x00 Welcome!\n\ninfo\nbestmove\nid\noption name\noption name Broken type\n")
        sys.stdout.flush()
    time.sleep(float(OPTIONS.get("slow-start", 0)))
    if "slow-restart" in OPTIONS and not once(OPTIONS["mark"]):
        time.sleep(float(OPTIONS["slow-restart"]))
    say(f"id name {OPTIONS.get('id', 'Fake 1.0')}")
    say("option name Hash type spin default 16 min 1 max 1024")
    say("option name UCI_ShowWDL type check default false")
    say("option name Style type combo default solid var solid var wild var very wild")
    say("option name Book Path type string default ")
    say("option name Debug Log File type string default ")
    say("option name Clear Hash type button")
    say("uciok")


def misbehave(position: str) -> None:
    """The things an engine does in place of searching; those that return let it search after all."""
    if wanted("crash-on", position) or (wanted("crash-once-on", position) and once(OPTIONS["mark"])):
        sys.stderr.write("assertion failed: king\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGSEGV)
    if wanted("kill-parent-on", position):
        os.kill(os.getppid(), signal.SIGKILL)
    if wanted("exit-on", position):
        sys.exit(3)
    if wanted("slow-on", position):
        time.sleep(float(OPTIONS["slow"]))
    if wanted("hang-on", position) or (wanted("hang-once-on", position) and once(OPTIONS["mark"])):
        time.sleep(600)
    while wanted("flood-on", position):
        say("blah " * 20)
    if wanted("endless-line-on", position):
        while True:
            sys.stdout.write("x" * 65536)
    if wanted("leak-on", position):  # until the limit that it sets itself, as `ulimit -v` would
        resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))
        held = []
        while True:
            held.append(bytearray(1 << 20))
    if wanted("warn-on", position):
        say("error in hash table, ignored")
    if wanted("error-on", position):
        say("error The file seems to be unparseable.")
        time.sleep(600)


# The last position that was asked about, and its board.
REACHED: list[tuple[str, chess.Board]] = []


def board_of(position: str) -> chess.Board:
    """Mostly the last one and two moves more: those before them are not played again."""
    import chess

    if REACHED and f"{position} ".startswith(f"{REACHED[0][0]} "):
        text, board = REACHED[0]
        played = position.removeprefix(text).removeprefix(" moves")
    else:
        start, _, played = position.removeprefix("position ").partition(" moves ")
        board = chess.Board() if start == "startpos" else chess.Board(start.removeprefix("fen "))
    for move in played.split():
        board.push_uci(move)
    REACHED[:] = [(position, board)]
    return board


def legal_move(position: str) -> str:
    """The first move that mates, else a capture or any move, by a hash of the position: the same every time."""
    import chess

    board = board_of(position)
    legal = sorted(board.legal_moves, key=chess.Move.uci)
    for move in filter(board.gives_check, legal):
        board.push(move)
        mate = board.is_checkmate()
        board.pop()
        if mate:
            return move.uci()
    legal = [move for move in legal if board.is_capture(move) or move.promotion] or legal
    return legal[zlib.crc32(f"{OPTIONS.get('salt')} {position}".encode()) % len(legal)].uci()


def best_move(position: str) -> str:
    if wanted("illegal-on", position):
        return "e2e5"
    if "play" in OPTIONS:
        return legal_move(position)
    return OPTIONS["best"] if "best" in OPTIONS and OPTIONS.get("best-on", "") in position else "e2e4"


def search(position: str, nodes: int) -> None:
    misbehave(position)
    time.sleep(float(OPTIONS.get("think", 0)))
    nodes = int(OPTIONS.get("nodes", nodes))
    if "garbage" in OPTIONS:
        sys.stdout.buffer.write(
            b"info depth many score cp x\n\x80\x81\ninfo depth 3 score\ninfo string bestmove h1h8\n"
        )
        sys.stdout.flush()
    if not wanted("no-score-on", position):
        say(f"info depth 4 seldepth 6 score cp {len(position)} wdl 300 400 300 nodes {nodes // 2} time 5 pv e2e4 e7e5")
        say(f"info depth 5 score cp 9999 lowerbound nodes {nodes}")
    if wanted("mated-on", position):
        say(f"info depth 6 score mate 0 nodes {nodes}")
    if wanted("garble-best-on", position):
        say("bestmove e2-e4")
    elif not wanted("no-best-on", position):
        say("bestmove " + best_move(position))
        if wanted("twice-on", position):
            say("bestmove " + best_move(position))
        if wanted("late-on", position):
            say("info depth 9 score cp 7777 nodes 1")
        if wanted("die-after-on", position):
            os._exit(4)


def main() -> None:
    if "exit-at-once" in OPTIONS:
        sys.exit(7)
    if "start-once" in OPTIONS and not once(OPTIONS["start-once"]):
        sys.exit("no memory")
    if "deaf" in OPTIONS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    position = ""
    for line in sys.stdin:
        if "log" in OPTIONS:
            with open(OPTIONS["log"], "a", encoding="utf-8") as log:
                log.write(line)
        words = line.split()
        match words[:1]:
            case ["uci"]:
                handshake()
            case ["isready"]:
                time.sleep(float(OPTIONS.get("slow-ready", 0)))
                if "bad-net" in OPTIONS:
                    say("error The net is bad.")
                    time.sleep(600)
                say("readyok")
            case ["position"]:
                position = line.strip()
            case ["go"]:
                search(position, int(words[2]))
            case ["quit"] if "deaf" not in OPTIONS:
                return
    while "deaf" in OPTIONS:
        time.sleep(60)


if __name__ == "__main__":
    main()
