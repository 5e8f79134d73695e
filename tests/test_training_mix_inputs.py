"""What cannot be mixed: broken chunks, other input formats, packed tars, chunks that change meanwhile."""

from __future__ import annotations

import gzip
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.mix_sides import folder_of, records, sides_in
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.training.chunk_files import BrokenChunk, pack, unpack
from valuerepair.training.chunk_output import UNFINISHED
from valuerepair.training.mix import MixOptions, Mixture, mix


@pytest.fixture
def sides(tmp_path: Path) -> MixOptions:
    return sides_in(tmp_path)


def test_input_formats_are_not_mixed(sides: MixOptions, tmp_path: Path) -> None:
    canonical = folder_of(tmp_path / "canonical", [5] * 9, input_format=3)
    with pytest.raises(
        ValueRepairError, match=r"repair games have input format classical .*, the normal ones canonical"
    ):
        mix(replace(sides, normal=(canonical,)), tmp_path / "out", quiet=True)
    with pytest.raises(ValueRepairError, match=r"game_000000.gz has input format classical .*, game_000000.gz has can"):
        mix(replace(sides, repair=(*sides.repair, canonical)), tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()


def spoiled(what: str) -> bytes:
    good = pack(records(4, 7))
    old = records(4, 7)
    old["version"] = 5
    mixed = records(4, 7)
    mixed["input_format"][2] = 3
    return {
        "cut off": good[: len(good) // 2],
        "damaged gzip stream": good[:30] + b"\xff" * 8 + good[38:],
        "no training chunk": gzip.compress(b"text, and much of it"),
        "training data of version 5": pack(old),
        "damaged records": pack(mixed),
        "not a whole number of records": gzip.compress(records(4, 7).tobytes() + b"x"),
        "not packed with gzip": records(4, 7).tobytes(),
        "bytes after its end": good + good,
        "longer than a game": gzip.compress(records(1, 7).tobytes() * 8193, 1),
    }[what]


REASONS = (
    "cut off",
    "damaged gzip stream",
    "no training chunk",
    "training data of version 5",
    "damaged records",
    "not a whole number of records",
    "not packed with gzip",
    "bytes after its end",
    "longer than a game",
)


@pytest.mark.parametrize("reason", REASONS)
def test_why_a_chunk_cannot_be_used(reason: str) -> None:
    with pytest.raises(BrokenChunk, match=f"^{reason}$"):
        unpack(spoiled(reason))


def test_broken_chunks_are_left_out_and_counted(sides: MixOptions, tmp_path: Path) -> None:
    for i, reason in enumerate(("cut off", "no training chunk", "cut off")):
        (tmp_path / "repair" / f"training.{i}.gz").write_bytes(spoiled(reason))
    manifest = mix(sides, tmp_path / "out", quiet=True)
    assert manifest["inputs"]["repair"]["left_out"] == {"cut off": 2, "no training chunk": 1}
    assert manifest["inputs"]["repair"]["left_out_first"][0] == "training.0.gz: cut off"
    assert manifest["games"] == 100
    only = tmp_path / "only"
    only.mkdir()
    (only / "training.1.gz").write_bytes(spoiled("cut off"))
    with pytest.raises(ValueRepairError, match="no usable chunk: cut off 1"):
        mix(replace(sides, repair=(str(only),)), tmp_path / "out2", quiet=True)


def test_games_in_place_of_chunks_are_refused_with_the_command_that_makes_chunks(
    sides: MixOptions, tmp_path: Path
) -> None:
    for name, content in (("games.pgn", b"1. e4 e5 *"), ("games.pgn.gz", gzip.compress(b"1. e4 e5 *"))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueRepairError, match="; vr chunks makes chunks of games"):
            mix(replace(sides, normal=(str(tmp_path / name),)), tmp_path / "out", quiet=True)


def test_a_tar_that_breaks_off_is_used_up_to_the_cut(sides: MixOptions, tmp_path: Path) -> None:
    tar = tmp_path / "normal" / "run.tar"
    tar.write_bytes(tar.read_bytes()[:20_000])
    manifest = mix(sides, tmp_path / "out", quiet=True)
    normal = manifest["inputs"]["normal"]
    assert 50 < normal["games"] < 100
    ((broken, how),) = normal["broken_off"]
    assert broken == str(tar)
    assert re.fullmatch(r"the tar archive breaks off at byte [\d,]+", how)


def test_a_folder_that_was_not_finished_is_told(
    sides: MixOptions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (tmp_path / "normal" / UNFINISHED).write_text("{}")
    mix(sides, tmp_path / "out", quiet=True)
    [line] = [record.getMessage() for record in caplog.records]
    folder = tmp_path / "normal"
    assert line == f"warning: {folder} is not finished: give the command that writes it again to resume"


def test_packed_tars_and_missing_folders(sides: MixOptions, tmp_path: Path) -> None:
    (tmp_path / "run.tar.gz").write_bytes(gzip.compress((tmp_path / "normal" / "run.tar").read_bytes()))
    with pytest.raises(ValueRepairError, match=r"run.tar.gz: a compressed tar allows no random access; unpack it"):
        mix(replace(sides, normal=(str(tmp_path / "run.tar.gz"),)), tmp_path / "out", quiet=True)
    with pytest.raises(UsageError, match="nowhere: no such file or folder"):
        mix(replace(sides, normal=("nowhere",)), tmp_path / "out", quiet=True)
    (tmp_path / "bare").mkdir()
    with pytest.raises(ValueRepairError, match=r"bare: no chunks \(.gz\) and no .tar files"):
        mix(replace(sides, normal=(str(tmp_path / "bare"),)), tmp_path / "out", quiet=True)
    with pytest.raises(UsageError, match="must lie between 0 and 1"):
        replace(sides, share=1.0)


def test_chunks_on_both_sides_are_told(sides: MixOptions, tmp_path: Path) -> None:
    for path in sorted(tmp_path.glob("repair/*.gz"))[:5]:
        shutil.copy(path, tmp_path / "normal" / f"x{path.name}")
    (tmp_path / "repair" / "game_900000.gz").write_bytes((tmp_path / "repair" / "game_000000.gz").read_bytes())
    manifest = mix(replace(sides, share=0.28), tmp_path / "out", quiet=True)
    assert manifest["same_content"]["in_both"] == 5
    assert manifest["same_content"]["within_repair"] == 1
    assert any(line.startswith("warning: 5 chunks are among both") for line in Mixture("out", manifest).lines())


def test_a_chunk_that_changes_meanwhile(sides: MixOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import valuerepair.training.mix as module

    real = module.choose

    def meddle(*arguments: Any) -> Any:
        (tmp_path / "repair" / "game_000003.gz").write_bytes(pack(records(6, 5)))
        return real(*arguments)

    monkeypatch.setattr(module, "choose", meddle)
    with pytest.raises(ValueRepairError, match=r"game_000003.gz: was changed while it was read; run it again"):
        mix(sides, tmp_path / "out", quiet=True)
