"""What the program gives out, as hashes: the baseline of a change that must not change it.

    python -m benchmarks.same_outputs before.json         # with PYTHONPATH at the tree before
    python -m benchmarks.same_outputs after.json          # with PYTHONPATH at the tree after
    python -m benchmarks.same_outputs --compare before.json after.json

It runs the command line only, in a folder of its own, on real archives (``--data``, or VALUEREPAIR_TEST_DATA: the files
that `tests` use), and knows nothing of the inside but the tables of stores: the tree that is measured is the one that
``python -m valuerepair`` finds, the program may come from another. It speaks today's spellings and tables and those
before stores of version 11 (`_OLD`).

The JSON has a SHA-256, the lines themselves and wall and processor seconds of each output, and ``--compare`` names what
differs, with the first line that does; ``--within 1e-5`` lets numbers differ so far. Fields of JSON that one side alone
has are listed, and are no difference. Takes some two minutes. Two runs on one tree and one machine give the same.

Left out, since they differ from run to run: times, dates, rates, paths, and the run's number and digest; and what a
version may do in its own way: screening, intervals.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import resource
import sqlite3
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import chess.pgn
import click
import zstandard

_GAMES, _DUMPED = 1500, 120  # games of the archive of masters, and of those that the dump is made of
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
# JSON fields that say when, where, how long or from which file.
_LEFT_OUT = frozenset(
    {"seconds", "nps", "nodes_per_second", "search_seconds", "time_ms", "started", "finished", "fitted", "created"}
    | {"store", "command", "path", "source", "versions", "version", "schema", "evaluated", "size"}
    | {"position_id", "game_id", "low", "high"}
)
_PGN_LEFT_OUT = re.compile(r'^\[(?:Date|UTCDate|UTCTime|Time|Run|Site|Source) ".*\n', re.M)
_POSITIONS = """
SELECT p.key, fen, start_fen, hex(moves), history_known, ply, {side}, {phase}, pieces, {origin}, g.number, white, black,
    event, date, result, headers, played, eval_cp, eval_mate FROM positions p JOIN games g ON g.id = game_id
"""
_NET_VALUES = """
SELECT p.key, n.name, sha256, q, w, d, l, {best} FROM net_values v JOIN nets n ON n.id = net_id
JOIN positions p ON p.id = position_id
"""
_DEEP_VALUES = """
SELECT p.key, label, cp, mate, w, d, l, q, depth, seldepth, nodes, best_move, pv FROM deep_values v
JOIN {judges} j ON j.id = {judges_id} JOIN positions p ON p.id = position_id WHERE {where}
"""
_PLAYS = "SELECT key, number, opening, fen, white, black, result, z, plies, ending FROM plays"


class Tables(NamedTuple):
    """How the same rows are asked of a store."""

    positions: str
    net_values: str
    deep_values: str
    plays: str = _PLAYS


_NEW = Tables(
    _POSITIONS.format(
        side="CASE p.side WHEN 0 THEN 'w' ELSE 'b' END",
        phase="CASE phase WHEN 0 THEN 'opening' WHEN 1 THEN 'middlegame' ELSE 'endgame' END",
        origin="origin",
    ),
    _NET_VALUES.format(best="first_move(policy), first_prior(policy)"),
    _DEEP_VALUES.format(judges="judges", judges_id="judge_id", where="failed IS NULL"),
)
_OLD = Tables(
    _POSITIONS.format(
        side="p.side",
        phase="phase",
        origin="CASE kind WHEN 'aside' THEN 'random_move' WHEN 'policy' THEN 'policy_move' WHEN 'search' THEN "
        "'search_node' ELSE kind END",
    ),
    _NET_VALUES.format(best="best_move, best_p"),
    _DEEP_VALUES.format(judges="oracles", judges_id="oracle_id", where="stage IN ('full', 'expanded')"),
)
# What a store has in use today is an option of each of these commands there.
_WITH_ALPHA = ("books", "export", "compare", "chunks")
_ALPHA = "170"


# Searches of one file of positions: what differs in them is the settings.
_SEARCHES = {
    "default": ("maia-1900", ()),
    "exact": ("maia-1900", ("certainty=1", "lookahead=1", "auto_extend=1")),
    "contempt": ("maia-1100", ("n_scl=20", "draw_score=0.1", "cpuct=2.5", "certainty=1")),
    "noise": ("maia-1900", ("noise_epsilon=0.25", "seed=7", "temperature=0.8")),
    "fpu": ("meangirl-8", ("fpu_strategy=absolute", "policy_softmax_temp=2.0", "two_fold_draws=0")),
    "batches": ("meangirl-8", ("minibatch_size=8", "cpuct_at_root=3.0", "root_has_own_cpuct_params=1")),
}


class Run:
    """One round of all outputs in `folder`, with what each gave and cost."""

    def __init__(self, data: Path, folder: Path) -> None:
        self.data, self.folder = data, folder
        self.outputs: dict[str, dict[str, Any]] = {}
        self.seconds: dict[str, dict[str, float]] = {}
        for name in ("games.pgn", "evaluations.jsonl", "positions.epd"):
            (folder / name).write_text(_archive(name, data), "utf-8")
        self.is_old = False
        self.is_old = "--save-alpha" in self.vr("help", "stats", "--help")

    def vr(self, step: str, *arguments: str) -> str:
        """What a command prints. Raises ClickException where it fails."""
        if self.is_old and arguments[0] in _WITH_ALPHA and "--db" in arguments:
            arguments = (*arguments, "--alpha", _ALPHA)
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        ended = subprocess.run(
            [sys.executable, "-m", "valuerepair", *arguments],
            cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if ended.returncode:
            raise click.ClickException(
                f"vr {' '.join(arguments)}\nexit code {ended.returncode}\n{ended.stderr[-2000:]}"
            )
        self.seconds[step] = {"wall": round(wall, 3), "cpu": round(cpu, 3)}
        print(f"{step:<24} {wall:6.1f} s, processor {cpu:6.1f} s", file=sys.stderr, flush=True)
        return ended.stdout

    def net(self, name: str) -> str:
        return str(self.data / "nets" / f"{name}.pb.gz")

    def keep(self, name: str, lines: Sequence[str] | dict[str, str]) -> None:
        """Lines, or values of JSON by their paths."""
        text = "\n".join([f"{path}: {value}" for path, value in lines.items()] if isinstance(lines, dict) else lines)
        self.outputs[name] = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "lines": lines}

    def mine(self, name: str, archive: str | Path, deep: str, *options: str, net: str = "maia-1900") -> None:
        """Mines into the store `name`.db and keeps what is in it."""
        chosen = () if deep == "recorded" and Path(archive).suffix == ".tar" else ("--net", self.net(net))
        self.vr(f"mine {name}", "mine", str(archive), *chosen, "--deep", deep, *options, "--db", f"{name}.db")
        self.keep_store(f"mine {name}", f"{name}.db")
        if not self.is_old:
            self.vr(f"use {name}", "stats", "--use", f"alpha={_ALPHA}", "--db", f"{name}.db")
            self.vr(f"split {name}", "split", "--games", "0", "--families", "0", "--db", f"{name}.db")

    def keep_store(self, name: str, store: str, *only: str) -> None:
        """The rows of a store by table, or of `only` some tables."""
        for table, lines in _stored(self.folder / store, _OLD if self.is_old else _NEW):
            if not only or table in only:
                self.keep(f"{name}: {table}", lines)


def _archive(name: str, data: Path) -> str:
    """An archive that the outputs are made from."""
    if name == "games.pgn":
        text = zstandard.ZstdDecompressor().stream_reader((data / "pgn/otb-masters.pgn.zst").open("rb")).read(1 << 21)
        return "\n\n[Event ".join(text.decode("latin-1").split("\n\n[Event ")[:_GAMES]) + "\n"
    if name == "positions.epd":
        kept = [*(data / "epd/bratko-kopec.epd").read_text().splitlines()[:12]]
        return "\n".join([*kept, *(data / "epd/STS1-STS15_LAN_v6.epd").read_text().splitlines()[::100]]) + "\n"
    return "\n".join(json.dumps(row) for row in _dump_rows(data / "pgn/lichess-blitz.pgn")) + "\n"


def _dump_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The evaluations in lichess's games as lines of its dump: four fields of FEN, White's score, the move played."""
    with path.open(encoding="utf-8") as file:
        for _ in range(_DUMPED):
            game = chess.pgn.read_game(file)
            for node in game.mainline() if game else ():
                if (score := node.eval()) is not None and node.next() is not None:
                    white = score.white()
                    value = {"mate": white.mate()} if white.is_mate() else {"cp": white.score()}
                    line = {**value, "line": node.next().move.uci()}  # type: ignore[union-attr]  # `is not None` above
                    fen = " ".join(node.board().fen().split()[:4])
                    yield {"fen": fen, "evals": [{"pvs": [line], "knodes": 1000, "depth": 20}]}


def _stored(path: Path, tables: Tables) -> Iterator[tuple[str, list[str]]]:
    """The rows of a store by table, in the order of their positions' keys."""
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("first_move", 1, lambda policy: policy and struct.unpack_from("<H", policy)[0])
        connection.create_function("first_prior", 1, lambda policy: policy and struct.unpack_from("<f", policy, 2)[0])
        for table, query in tables._asdict().items():
            rows = sorted(json.dumps(row) for row in connection.execute(query))
            if rows:
                yield table.replace("_", " "), rows


def _plain(value: Any) -> Any:
    """JSON without the fields that differ from run to run."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if key not in _LEFT_OUT}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _json_lines(text: str) -> dict[str, str]:
    """Each value by its path: the fields, and before them the number of the line if there are several."""
    rows = [json.loads(line) for line in text.splitlines()] if "\n{" in text.strip() else json.loads(text)
    return dict(_paths(_plain(rows), ""))


def _paths(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, json.dumps(value)


def _pgn(path: Path) -> list[str]:
    """The games of a PGN file, one a line, in alphabetical order: they are written as they end."""
    games = re.split(r"\n\n(?=\[)", _PGN_LEFT_OUT.sub("", path.read_text()).strip())
    return sorted(game.replace("\n", " ") for game in games)


def _mine(run: Run) -> None:
    """Stores: each kind of archive, each kind of judge, in games and beside them."""
    games, blitz, epd = "games.pgn", run.data / "pgn/lichess-blitz.pgn", "positions.epd"
    run.mine("masters", games, "stockfish:nodes=5000,hash=16", "--positions", "150", "--seed", "3", "--screen", "off")
    run.mine("blitz", blitz, "stockfish:nodes=3000,hash=16", "--positions", "100", "--screen", "off", net="meangirl-8")
    run.mine("epd", epd, "stockfish:nodes=5000,hash=16", "--screen", "off", net="maia-1100")
    beside = ("--positions", "150", "--seed", "1", "--off-game", "0.5", "--screen", "off")
    run.mine("beside", games, "stockfish:nodes=5000,hash=16", *beside)
    run.mine("own", blitz, "mcts:nodes=200", "--positions", "60", "--screen", "off", "--threshold", "0.4")
    run.mine("recorded", blitz, "recorded", "--positions", "800")
    run.mine("dump", "evaluations.jsonl", "recorded", "--positions", "800")


def _use(run: Run) -> None:
    """Books of two stores, games from one of them with their training records, chunks, and a store mined from these."""
    for store, threshold in (("recorded", "0.4"), ("masters", "0.3")):
        folder = run.folder / f"books of {store}"
        run.vr(f"books of {store}", "books", "--db", f"{store}.db", "--threshold", threshold, "-o", folder.name)
        run.keep(f"books of {store}: pgn", _pgn(folder / "book.pgn"))
        run.keep(f"books of {store}: epd", (folder / "book.epd").read_text().splitlines())
    book = "books of recorded/book.pgn"
    run.vr("selfplay", "selfplay", book, "--net", run.net("maia-1900"), "--nodes", "50", "--training", "chunks",
           "-o", "played.pgn", "--db", "played.db")  # fmt: skip
    run.keep("selfplay: pgn", _pgn(run.folder / "played.pgn"))
    chunks = sorted((run.folder / "chunks").glob("*.gz"))
    run.keep("selfplay: chunks", [f"{path.name} {_digest(path.read_bytes())}" for path in chunks])
    run.keep_store("selfplay", "played.db", "plays")
    with tarfile.open(run.folder / "chunks.tar", "w") as tar:
        for path in chunks:
            tar.add(path, path.name)
    net = ["--net", run.net("maia-1900")]
    sources = {"of the store": net, "of games": ["games.pgn", *net], "of chunks": ["chunks.tar"]}
    for name, given in sources.items():
        folder = run.folder / f"chunks {name}"
        run.vr(f"chunks {name}", "chunks", *given, "-o", folder.name, "--db", "masters.db")
        run.keep(f"chunks {name}", sorted(_digests(folder)))
    run.mine("chunks", "chunks.tar", "recorded", "--positions", "200")
    searched = ("--positions", "40", "--screen", "off")
    run.mine("chunks searched", "chunks.tar", "stockfish:nodes=3000,hash=16", *searched)


def _digests(folder: Path) -> Iterator[str]:
    """The names of the chunks of a folder's tars, with the hashes of their records."""
    for path in folder.rglob("*.tar"):
        with tarfile.open(path) as tar:
            for member in tar:
                if (packed := tar.extractfile(member)) is not None:
                    yield f"{member.name} {_digest(packed.read())}"


def _digest(packed: bytes) -> str:
    return hashlib.sha256(gzip.decompress(packed)).hexdigest()


def _look(run: Run) -> None:
    """What exports and comparisons of stores say, and what searches of single positions give."""
    for store in ("recorded", "masters", "own"):
        for name, given in {"export": [], "candidates": ["--threshold", "0.3"]}.items():
            run.vr(f"{name} {store}", "export", "--db", f"{store}.db", *given, "-o", f"{name}-{store}.jsonl")
            run.keep(f"{name} {store}", _json_lines((run.folder / f"{name}-{store}.jsonl").read_text()))
    compared = (run.net("maia-1900"), run.net("maia-1100"), run.net("meangirl-8"))
    everything = [] if run.is_old else ["--part", "all"]
    words = ("compare", *compared, "--db", "masters.db", "--json", *everything)
    run.keep("compare", _json_lines(run.vr("compare", *words)))
    run.keep_store("compare", "masters.db", "net values")
    for name, (net, settings) in _SEARCHES.items():
        settings_words = [word for setting in settings for word in ("--set", setting)]
        asked = ("eval", "positions.epd", "--nodes", "400", "--net", run.net(net), *settings_words, "--json")
        run.keep(f"search {name}", _json_lines(run.vr(f"search {name}", *asked)))


def measure(data: Path) -> dict[str, Any]:
    """All outputs of the program that ``python -m valuerepair`` finds."""
    with tempfile.TemporaryDirectory(prefix="vr-same-") as folder:
        run = Run(data, Path(folder))
        for part in (_mine, _use, _look):
            part(run)
        return {"outputs": run.outputs, "seconds": run.seconds}


def differences(before: dict[str, Any], after: dict[str, Any], within: float = 0.0) -> list[str]:
    """A line for each output that is not the same, with the first line of it that differs."""
    lines = []
    for name in dict.fromkeys([*before["outputs"], *after["outputs"]]):
        if name not in before["outputs"] or name not in after["outputs"]:
            lines.append(f"{name}: only {'after' if name in after['outputs'] else 'before'}")
            continue
        old, new = (kept["outputs"][name]["lines"] for kept in (before, after))
        if isinstance(old, dict):
            both = [path for path in old if path in new]
            old, new = ([f"{path}: {lines[path]}" for path in both] for lines in (old, new))
        differ = [pair for pair in zip(old, new, strict=False) if not _same(*pair, within)]
        if differ or len(old) != len(new):
            lines.append(f"{name}: {len(differ)} of {len(old)} lines differ, {len(new)} after" + _shown(differ))
    return lines


def _same(old: str, new: str, within: float) -> bool:
    if old == new:
        return True
    if not within or _NUMBER.sub("#", old) != _NUMBER.sub("#", new):
        return False
    pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    return all(a == b or abs(float(a) - float(b)) <= within for a, b in pairs)


def _shown(differ: Sequence[tuple[str, str]]) -> str:
    """The first pair from a little before where it parts."""
    if not differ:
        return ""
    old, new = differ[0]
    parts = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    begin = max(0, parts - 60)
    return f"\n    {old[begin : begin + 160]}\n    {new[begin : begin + 160]}"


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--data", envvar="VALUEREPAIR_TEST_DATA", type=click.Path(file_okay=False, path_type=Path),
              help="Folder of the real archives.  [default: VALUEREPAIR_TEST_DATA]")  # fmt: skip
@click.option("--compare", "comparing", is_flag=True, help="Of two files name what differs; exit code 1 if any.")
@click.option("--within", default=0.0, show_default=True, help="Numbers may differ so far.")
def command(files: tuple[Path, ...], data: Path | None, comparing: bool, within: float) -> None:
    """Write hashes of what the program gives out to a JSON file, or compare two such files."""
    if comparing:
        if len(files) != 2:
            raise click.UsageError("--compare takes two files")
        before, after = (json.loads(path.read_text("utf-8")) for path in files)
        for step, cost in after["seconds"].items():
            if step in before["seconds"]:
                old = before["seconds"][step]
                click.echo(f"{step:<24} processor {old['cpu']:6.1f} -> {cost['cpu']:6.1f} s, "
                           f"wall {old['wall']:6.1f} -> {cost['wall']:6.1f} s")  # fmt: skip
        for name, output in after["outputs"].items():
            old_paths = before["outputs"].get(name, output)["lines"]
            if isinstance(old_paths, dict) and (alone := old_paths.keys() ^ output["lines"].keys()):
                fields = sorted({re.sub(r"\b\d+\b", "*", path) for path in alone})
                click.echo(f"{name}: {len(alone)} fields on one side alone: {', '.join(fields[:40])}")
        lines = differences(before, after, within)
        click.echo("\n".join(lines) if lines else f"all {len(after['outputs'])} outputs are the same")
        sys.exit(1 if lines else 0)
    if len(files) != 1 or data is None:
        raise click.UsageError("one file to write, and --data FOLDER or VALUEREPAIR_TEST_DATA")
    kept = measure(data.resolve())
    files[0].write_text(json.dumps(kept, indent=0), "utf-8")
    for name, output in kept["outputs"].items():
        click.echo(f"{output['sha256'][:16]}  {len(output['lines']):>5} lines  {name}")


if __name__ == "__main__":
    command(prog_name="python -m benchmarks.same_outputs")
