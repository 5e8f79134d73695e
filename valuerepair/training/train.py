"""`vr train`: trains an old net on positions, and writes a new net that lc0 plays, with the curve of the training."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.origins import GAME, KINDS
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import HeldError, check_output, claimed, read_json, written_whole
from valuerepair.nets.planes import PLANES, unpack_masks
from valuerepair.nets.registry import locate
from valuerepair.nets.weights import ONNX, NetFile, read_net_file
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.store.alpha import for_training
from valuerepair.store.store import Store
from valuerepair.text import formatted, json_fields, positions_of_games, quantity, table_lines
from valuerepair.training import checkpoint
from valuerepair.training.judged import JudgedPositions, held_out_keys, open_to_learn
from valuerepair.training.options import POLICY, TrainOptions
from valuerepair.training.sources import ChunkSource, Held, StoreSource, TrainingSource, TrainingStream
from valuerepair.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.training.fit import Fitted
    from valuerepair.training.graph import NetGraph

log = logging.getLogger(__name__)

SUFFIX = ".pb.gz"
MAX_DIFFERENCE = 5e-3  # in Q, between the written net and the trained parameters
_CHECKED = 256  # positions
FEW_POSITIONS, MANY_PASSES = 2_000, 10  # limits of warnings (docs/methods.md, "Training")
# Some of `fit.MEASURES`, with their words and formats.
_LINES = {
    "loss": ("loss", ".4f"),
    "mean_dq": ("mean |net Q - deep Q|", ".4f"),
    "rate": ("candidates", ".2%"),
    "policy_kl": ("KL to the old policy", ".4f"),
    "judge_move": ("first move is the judge's", ".2%"),
}


@dataclass(frozen=True, slots=True)
class Training:
    """A training: facts `about` it (options, sources, the written net), the `rows` of its curve, one per judgement; and
    `next_step`, the command that compares the new net with the old one on positions that training did not see."""

    about: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    next_step: str | None = None

    @property
    def curve(self) -> pd.DataFrame:
        """A row for each judgement: step, learning rate, losses and the measures of docs/train.md."""
        import pandas as pd

        frame: pd.DataFrame = pd.DataFrame(list(self.rows))
        frame.attrs.update(self.about)
        return frame

    @property
    def broken_off(self) -> Sequence[tuple[str, str]]:
        """The tars of chunks that break off, each with where."""
        broken_off: Sequence[tuple[str, str]] = self.about.get("broken_off", ())
        return broken_off

    def lines(self) -> list[str]:
        """The result as text for a terminal."""
        about, written = self.about, self.about["written"]
        games = about["games"]
        lines = [f"{about['output']}: {about['net']['name']} after {written['step']:,} steps"]
        if about["stopped"]:
            steps = about["options"]["steps"]
            lines.append(f"stopped after {self.rows[-1]['step']:,} of {steps:,}: {about['stopped']}")
        if written["changed"]:
            lines.append(
                f"written and read again, it differs from the trained parameters by at most {written['q']:.1e} in Q, "
                f"{written['p']:.1e} in a move's probability"
            )
        else:
            lines.append(
                "no step improved the net: the output is a copy of the old net; mine more positions, "
                "or give a lower --lr"
            )
        amplitude = about.get("amplitude")
        if amplitude is not None:
            lines.append(_amplitude_line(amplitude, about["options"].get("amplitude")))
        if "loss" in self.rows[0]:
            judged = next(row for row in self.rows if row["step"] == written["step"])
            best = judged if amplitude is None else amplitude["measures"]
            lines.append(f"held out: {positions_of_games(games['judged'], games['held_out'])} of {games['all']:,}")
            rows = (
                (words, formatted(old, form), formatted(best[name], form))
                for name, (words, form) in _measure_lines(self.rows[0]).items()
                if (old := self.rows[0][name]) is not None
            )
            lines += table_lines(":<30 | old:>9 | new:>9", rows)
        return lines if self.next_step is None else [*lines, f"next: {self.next_step}"]

    def as_json(self) -> dict[str, Any]:
        """The content of the file next to the net: `about`, and its curve."""
        return {**self.about, "curve": list(self.rows)}


def _amplitude_line(amplitude: Mapping[str, Any], requested: float | None) -> str:
    """The part of the change that was written, and the part that the held-out games support."""
    held_out = amplitude["lambda_held_out"]
    if requested is None:
        return f"amplitude: lambda {amplitude['lambda']:.2f} on the games held out"
    if held_out is None:  # no games were held out
        return f"amplitude: lambda {amplitude['lambda']:.2f} as given"
    return f"amplitude: lambda of held-out games {held_out:.2f}; written {amplitude['lambda']:g}"


def _measure_lines(row: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """`_LINES`, with the net's error and its rate of candidates also for each kind of positions."""
    lines = {}
    for name, line in _LINES.items():
        lines[name] = line
        lines |= {f"{name}_{kind}": (f"  {kind}", line[1]) for kind in KINDS if f"{name}_{kind}" in row}
    return lines


def train(
    net: str,
    output: str | os.PathLike[str],
    chunks: Sequence[str] = (),
    store: str | None = None,
    question: Question | None = None,
    options: TrainOptions | None = None,
    *,
    quiet: bool = False,
) -> Training:
    """Trains `net` on chunks, a store, or both, and writes `output`, a .pb.gz, with its curve next to it.

    It uses only the part ``train`` of the store, and no chunk with another position of the store; a store without a
    split gets the default one. The `question` says whose values are learned; one without an alpha gets that of
    `store.alpha.for_training`, and its threshold is that of the options. The same call resumes an interrupted one, and
    returns the result of a finished one again. lc0 reads the written file, which is compared with the trained
    parameters before it gets its name. Raises ValueRepairError and UsageError.
    """
    options = options or TrainOptions()
    if store is None:
        _check_without_store(options)
    if options.q_ratio and not chunks:
        raise UsageError("--set q_ratio: is of training chunks; the positions of a store have the judge's value")
    check_jax()
    path = Path(output)
    file = _net_to_train(net, path, chunks, store)
    assert file.header is not None
    try:
        with _claimed(path):
            finished = _finished(path)
            _check_before(path, finished, file, options)
            question = replace(question or Question(), net=str(file.path), threshold=options.threshold)
            if store is not None:
                with open_to_learn(store) as opened:
                    question, notes = for_training(opened, question)
                for line in notes:
                    log.info(line)
                options = replace(options, policy=POLICY if options.policy is None else options.policy)
            sources = _sources(file, chunks, store, question, options, quiet)
            return _train(file, path, finished, sources, store is not None, question, options, quiet)
    except OSError as error:
        raise ValueRepairError(f"{error.filename or output}: {error.strerror or error}") from None


def _check_without_store(options: TrainOptions) -> None:
    """Raises UsageError for an option that only a store's positions have."""
    requested = {
        "--policy": options.policy is not None,
        "--control": options.control,
        "--set disagreement_weight": options.disagreement_weight > 0,
    }
    if names := [name for name, is_given in requested.items() if is_given]:
        raise UsageError(f"{names[0]}: is for the positions of a store; give it by --db")


def _train(
    file: NetFile,
    path: Path,
    finished: Training | None,
    sources: Sequence[TrainingSource],
    has_store: bool,
    question: Question,
    options: TrainOptions,
    quiet: bool,
) -> Training:
    from valuerepair.training.fit import fit
    from valuerepair.training.graph import NetGraph

    policy_kl = options.policy_kl if options.policy_kl is not None else float(has_store)
    graph = NetGraph.of_file(file)
    held = [source.held_out() for source in sources] if options.holdout else []
    stream = TrainingStream(sources, options.batch, options.seed)
    options = options.planned(stream.positions)
    for line in _start_lines(sources, held, stream, options):
        log.info(line)
    identity = _identity(file, sources, options, policy_kl, question)
    if finished is not None:
        _check_finished(path, finished, identity)
        log.info(f"{path}: this training was finished before")
        return finished
    about: dict[str, Any] = {
        "version": f"valuerepair {__version__}",
        "output": str(path),
        "net": {"name": file.name, "sha256": file.sha256},
        "options": asdict(options) | {"policy_kl": policy_kl, "alpha": question.alpha},
        "sources": [source.name for source in sources],
        "broken_off": [
            archive for source in sources if isinstance(source, ChunkSource) for archive in source.left_out.broken_off
        ],
        "games": {
            "all": sum(source.games for source in sources),
            "held_out": sum(source.held_games for source in sources),
            "judged": sum(len(part.samples) for part in held),
        },
        "positions": stream.positions,
        "identity": identity,
    }
    fitted = fit(
        graph,
        stream,
        held,
        options,
        policy_kl=policy_kl,
        checkpoint=_checkpoint(path),
        identity=identity,
        on_curve=lambda rows: write_curve(path, Training(about, json_fields(rows))),
        quiet=quiet,
    )
    amplitude = _amplitude(fitted)
    written = _write(file, path, graph, fitted, _some_planes(stream, held), about)
    written["sha256"] = read_net_file(path).sha256
    ending = {"stopped": fitted.stopped, "amplitude": amplitude, "written": written}
    training = Training({**about, **ending}, json_fields(fitted.curve))
    write_curve(path, training)
    _checkpoint(path).unlink(missing_ok=True)
    return training


def _identity(
    file: NetFile,
    sources: Sequence[TrainingSource],
    options: TrainOptions,
    policy_kl: float,
    question: Question,
) -> dict[str, Any]:
    """What makes two trainings the same, by the names that messages use."""
    identity: dict[str, Any] = {"the net": file.sha256, "what it learns from": [source.identity for source in sources]}
    identity |= checkpoint.options_by_name(options)
    return identity | {"policy_kl": policy_kl, "--alpha": question.alpha}


def _start_lines(
    sources: Sequence[TrainingSource], held: Sequence[Held], stream: TrainingStream, options: TrainOptions
) -> Iterator[str]:
    """The positions to learn from, and warnings, logged before training takes its time."""
    games = sum(source.games - source.held_games for source in sources)
    of_store = [number for source in sources if isinstance(source, StoreSource) for number in _store_counts(source)]
    judged = f"judged on {sum(len(part.samples) for part in held):,}" if held else "judged on no positions (holdout=0)"
    passes = options.total_steps * options.batch / stream.positions
    kinds = f" ({', '.join(of_store)})" if of_store else ""
    yield (
        f"learns from {positions_of_games(stream.positions, games)}{kinds}, {judged}; {options.total_steps:,} steps "
        f"are {passes:.3g} passes"
    )
    for source in sources:
        if isinstance(source, ChunkSource):
            yield from source.left_out.lines()
    if stream.positions < FEW_POSITIONS:
        yield f"warning: fewer than {FEW_POSITIONS:,} positions teach a net little that generalises; mine more"
    if held and any(isinstance(source, ChunkSource) and not source.is_of_games for source in sources):
        yield (
            "warning: most chunks have one record, so positions that judge the net may be of the same games as "
            "positions that train it; compare the nets on other games by vr compare"
        )
    if passes > MANY_PASSES:
        yield f"warning: in more than {MANY_PASSES} passes a net memorises its positions; give fewer --steps"


def _store_counts(source: StoreSource) -> Iterator[str]:
    """The numbers of positions beside games, of candidates, and of positions that screening left out, to train on."""
    judged, rows = source.judged, source.trained
    if beside_count := int((judged.kind[rows] != GAME).sum()):
        yield f"{beside_count:,} beside them"
    yield quantity(int(judged.is_candidate[rows].sum()), "candidate")
    if screened := int(judged.screened[rows].sum()):
        yield f"{screened:,} by the short search of screening"


# -- before -----------------------------------------------------------------------------------------------------------


def check_jax() -> None:
    """Raises ValueRepairError if JAX or optax is missing."""
    try:
        import jax  # noqa: F401
        import optax  # noqa: F401
    except ImportError:
        raise ValueRepairError("training needs JAX and optax: pip install 'valuerepair[train]'") from None


def _net_to_train(net: str, output: Path, chunks: Sequence[str], store: str | None) -> NetFile:
    """The net to train. Raises UsageError and ValueRepairError for a net, output or source that cannot be used."""
    if not output.name.endswith(SUFFIX) or output.name == SUFFIX:
        raise UsageError(f"-o {output}: a net's name ends in {SUFFIX}")
    if not chunks and store is None:
        raise UsageError("nothing to learn from: give training chunks, or --db")
    file = read_net_file(locate(net))
    if file.header is None or file.header.network == ONNX:
        raise UsageError(f"{file.path}: an ONNX file cannot be trained; give the {SUFFIX} that it was made of")
    if output.exists() and os.path.samefile(output, file.path):
        raise UsageError(f"-o {output}: is the net to train; give another name")
    check_output(curve_path(output))
    return file


def _finished(output: Path) -> Training | None:
    """The training that wrote `output`; None without one, or with a checkpoint that resumes it.

    Raises UsageError for any other file.
    """
    if not output.exists() or _checkpoint(output).exists():
        return None
    try:
        training = read_curve(output)
        if training.about["written"]["sha256"] == read_net_file(output).sha256:
            return training
    except (ValueRepairError, KeyError, TypeError):
        pass
    raise UsageError(f"{output}: already exists; remove it, or give another -o")


def _check_before(output: Path, finished: Training | None, file: NetFile, options: TrainOptions) -> None:
    """Raises UsageError if another training uses this output, finished or not, before it reads any positions.

    Options that depend on the positions, such as default steps, are compared when the training begins.
    """
    requested = {name: value for name, value in checkpoint.options_by_name(options).items() if value is not None}
    expected = {"the net": file.sha256, **requested}
    checkpoint.check(_checkpoint(output), expected)
    if finished is not None:
        _check_finished(output, finished, expected)


def _check_finished(output: Path, finished: Training, expected: Mapping[str, Any]) -> None:
    """Raises UsageError if the training that wrote `output` differs in one of `expected`, a part of its identity."""
    if names := checkpoint.differences(expected, finished.about.get("identity") or {}):
        raise UsageError(
            f"{output}: already exists, from a training that differs in {names}; remove it, or give another -o"
        )


@contextmanager
def _claimed(output: Path) -> Iterator[None]:
    """Locks the net against other trainings. Raises ValueRepairError if another one has locked it."""
    try:
        with claimed(_next_to(output, ".lock")):
            yield
    except HeldError:
        raise ValueRepairError(f"{output}: another vr train is already running on this file") from None


def _sources(
    file: NetFile,
    chunks: Sequence[str],
    store: str | None,
    question: Question,
    options: TrainOptions,
    quiet: bool,
) -> list[TrainingSource]:
    assert file.header is not None
    input_format = file.header.input_format
    sources: list[TrainingSource] = []
    held_out = None
    if store is not None:
        with Store.open(store) as opened:
            source = StoreSource(
                JudgedPositions(opened, question),
                input_format,
                holdout=options.holdout,
                control=options.control,
                disagreement_weight=options.disagreement_weight,
            )
            held_out = np.union1d(source.judged.keys[source.held], held_out_keys(opened))
        sources.append(source)
    if chunks:
        with Progress("Reading chunks", None, "bytes", quiet=quiet) as progress:
            sources.append(
                ChunkSource(
                    chunks,
                    input_format,
                    q_ratio=options.q_ratio,
                    holdout=options.holdout,
                    held_out=held_out,
                    on_bytes=progress.advance,
                )
            )
    return sources


# -- after ------------------------------------------------------------------------------------------------------------


def _amplitude(fitted: Fitted) -> dict[str, Any] | None:
    """The amplitude step for the report; warns of a small lambda of the held-out games."""
    from valuerepair.training.fit import LOW

    amplitude = fitted.amplitude
    if amplitude is None:
        return None
    if amplitude.of_held_out < LOW:
        log.warning(
            f"warning: lambda of held-out games is {amplitude.of_held_out:.2f}: most of what was learned does not hold "
            "there; more positions, fewer --steps or a lower --lr would make more of it hold"
        )
    factors = {
        "lambda": amplitude.factor,
        "lambda_held_out": amplitude.of_held_out,
    }
    return {**json_fields(factors), "measures": json_fields(amplitude.measures)}


def _write(
    file: NetFile,
    path: Path,
    graph: NetGraph,
    fitted: Fitted,
    planes: NDArray[np.float32],
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """Writes the net and compares it, as lc0 reads it, with the trained parameters. Raises ValueRepairError."""
    from valuerepair.training.write_net import check_written, write_net

    old = graph.parameters
    changed = frozenset(name for name, value in fitted.parameters.items() if not np.array_equal(value, old[name]))
    written: dict[str, Any] = {"step": fitted.best_step, "changed": len(changed), "q": 0.0, "p": 0.0}
    if not changed:
        with written_whole(path) as partial:
            shutil.copyfile(file.path, partial)
        return written
    parameters = {**old, **fitted.parameters}
    target = Path(os.path.realpath(path))  # a link stays, its target is replaced
    unchecked = _next_to(target, f".unchecked{SUFFIX}")
    notes = {"steps": fitted.best_step, "lr": about["options"]["lr"]}
    if fitted.amplitude is not None:
        notes["lambda"] = fitted.amplitude.factor
    write_net(file.path, parameters, changed, unchecked, notes)
    q, p = check_written(unchecked, graph, parameters, planes)
    if not q <= MAX_DIFFERENCE:
        raise ValueRepairError(
            f"{unchecked}: the written net differs from the trained parameters by {q:.1e} in Q, "
            f"more than {MAX_DIFFERENCE:g}; it is kept under this name"
        )
    os.replace(unchecked, target)
    return written | {"q": float(q), "p": float(p)}


def _some_planes(stream: TrainingStream, held: Sequence[Held]) -> NDArray[np.float32]:
    """float32[n, 112, 8, 8]: planes of positions to compare nets on."""
    samples = held[0].samples if held else stream.sources[0].read(stream.sources[0].units().units[:_CHECKED])
    samples = samples.take(np.arange(min(len(samples), _CHECKED)))
    planes = np.empty((len(samples), PLANES, 8, 8), np.float32)
    unpack_masks(samples.masks, samples.rule50, planes)
    return planes


# -- files next to the net --------------------------------------------------------------------------------------------


def _next_to(output: Path, ending: str) -> Path:
    return output.with_name(output.name.removesuffix(SUFFIX) + ending)


def _checkpoint(output: Path) -> Path:
    return _next_to(output, ".checkpoint")


def curve_path(output: str | os.PathLike[str]) -> Path:
    """The file with the curve of the training that writes this net."""
    return _next_to(Path(output), ".training.json")


def write_curve(output: Path, training: Training) -> None:
    """Writes options and curve next to the net."""
    text = json.dumps(training.as_json(), indent=1, ensure_ascii=False)
    with written_whole(curve_path(output)) as partial:
        partial.write_text(text + "\n", "utf-8")


def read_curve(path: str | os.PathLike[str]) -> Training:
    """The training of a net, or of the file that `write_curve` wrote next to it. Raises ValueRepairError."""
    path_of_curve = Path(path)
    if path_of_curve.name.endswith(SUFFIX):
        path_of_curve = curve_path(path_of_curve)
    expected = "a curve that vr train wrote"
    try:
        about = read_json(path_of_curve, expected)
    except OSError as error:
        raise ValueRepairError(f"{path_of_curve}: {error.strerror}; vr train writes it beside the new net") from None
    if not about.get("curve") or not {"output", "net", "options"} <= about.keys():
        raise ValueRepairError(f"{path_of_curve}: is not {expected}")
    return Training(about, about.pop("curve"))
