"""Files of training chunks: tars, folders, packed ones, ones that break off, and draws from them."""

from __future__ import annotations

import gzip
import re
import tarfile
from pathlib import Path

import pytest

from tests.chunk_games import ENDING, ENDING_START, GAME, run, tar_of
from tests.v6_records import positions_of, records_of, write_chunk
from valuerepair.archives.open import find_sources, total_bytes
from valuerepair.errors import ValueRepairError


def test_other_versions_are_refused_in_one_line(tmp_path: Path) -> None:
    records = records_of(positions_of(GAME), GAME)
    for version in (3, 5, 7):
        write_chunk(tmp_path / f"game_{version}.gz", records)
        records["version"] = version
        write_chunk(tmp_path / f"game_{version}.gz", records)
    with pytest.raises(
        ValueRepairError, match=r"no training chunk of version 6 here: 1 x training data of version 3, 1 x"
    ):
        run(tmp_path)
    records["version"] = 6
    write_chunk(tmp_path / "game_9.gz", records)
    found, report = run(tmp_path)
    assert len(found) == len(GAME)
    assert report.rejected == {f"training data of version {v}": 1 for v in (3, 5, 7)}


def test_truncated_chunks_are_used_up_to_the_cut_and_reported(tmp_path: Path) -> None:
    records = records_of(positions_of(GAME), GAME)
    whole = records.tobytes()
    (tmp_path / "game_1.gz").write_bytes(gzip.compress(whole[: 10 * 8356 + 100]))
    (tmp_path / "game_2.gz").write_bytes(gzip.compress(whole)[:-400])
    (tmp_path / "game_3.gz").write_bytes(gzip.compress(whole[:8356])[:-100])
    found, report = run(tmp_path)
    cuts = {Path(name).name: how for name, how in report.truncated}
    assert cuts["game_1.gz"] == "100 trailing bytes after the last whole record (10 whole records)"
    assert re.fullmatch(r"the gzip stream breaks off \(\d+ whole records\)", cuts["game_2.gz"])
    assert cuts["game_3.gz"] == "the gzip stream breaks off"
    assert report.rejected == {"cut off": 1}
    assert 10 < len(found) <= len(GAME)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tars_of_chunks_and_members_that_are_none(tmp_path: Path, form: int) -> None:
    records = records_of(positions_of(GAME), GAME)
    other = records_of(positions_of(ENDING, ENDING_START), ENDING)
    deep = "a/" * 45 + "b" * (60 if form == tarfile.USTAR_FORMAT else 160) + "/training.2.gz"
    files = {
        "run/training.1.gz": gzip.compress(records.tobytes()),
        "run/README": b"not a chunk",
        "run/empty.gz": gzip.compress(b""),
        deep: gzip.compress(other.tobytes()),
    }
    path = tar_of(tmp_path / "run.tar", files, form)
    found, report = run(path)
    assert len(found) == len(GAME) + len(ENDING)
    assert report.games == 4
    assert report.rejected == {"no training chunk": 2}
    assert [what for _, _, what in report.examples] == [
        "no training chunk: run/README",
        "no training chunk: run/empty.gz",
    ]
    assert {p.origin.game for p in found} == {1, 4}
    data = path.read_bytes()
    for p in found:
        assert data[p.origin.offset : p.origin.offset + 2] == b"\x1f\x8b"


def test_a_tar_that_breaks_off(tmp_path: Path) -> None:
    chunk = gzip.compress(records_of(positions_of(GAME), GAME).tobytes())
    path = tar_of(tmp_path / "run.tar", {f"training.{i}.gz": chunk for i in range(3)})
    data = path.read_bytes()
    second = 512 * (1 + (len(chunk) + 511) // 512)
    for size, games, how in (
        (second + 200, 1, f"breaks off at byte {second + 200:,}"),
        (second, 1, f"breaks off at byte {second:,}"),
        (second + 512 + len(chunk) // 2, 2, f"breaks off at byte {second + 512 + len(chunk) // 2:,}"),
    ):
        path.write_bytes(data[:size])
        _, report = run(path)
        assert report.games == games
        assert any(how in line for _, line in report.truncated)
    path.write_bytes(data[: second + 100] + b"x" * 300 + data[second + 400 :])
    assert "damaged at byte" in run(path)[1].truncated[0][1]


def test_packed_tars_single_files_and_folders(tmp_path: Path) -> None:
    chunk = gzip.compress(records_of(positions_of(GAME), GAME).tobytes())
    folder = tmp_path / "folder"
    folder.mkdir()
    tar = tar_of(tmp_path / "run.tar", {"training.1.gz": chunk})
    (folder / "run.tar.gz").write_bytes(gzip.compress(tar.read_bytes()))
    (folder / "run2.tgz").write_bytes(gzip.compress(tar.read_bytes()))
    (folder / "training.12.gz").write_bytes(chunk)
    (folder / "game_000001.gz").write_bytes(chunk)
    (folder / "plain_chunk.gz").write_bytes(chunk)
    (folder / "letters.gz").write_bytes(gzip.compress(b"dear diary"))
    (folder / "net.pb.gz").write_bytes(chunk)
    names = [Path(s.path).name for s in find_sources([str(folder)])]
    assert names == ["game_000001.gz", "plain_chunk.gz", "run.tar.gz", "run2.tgz", "training.12.gz"]
    assert total_bytes([str(folder)]) == 3 * len(chunk) + 2 * (folder / "run.tar.gz").stat().st_size
    found, report = run(folder)
    assert report.parsed == 5
    assert len(found) == len(GAME)
    assert report.duplicates == 4 * len(GAME)
    (tmp_path / "unpacked").write_bytes(gzip.decompress(chunk))
    assert run(tmp_path / "unpacked")[1].parsed == 1


def test_a_folder_of_chunks_is_read_as_a_tar_of_them_is(tmp_path: Path) -> None:
    """Blocks go on from file to file, and each position knows its own."""
    folder = tmp_path / "folder"
    folder.mkdir()
    files = {}
    for i in range(40):
        length = 25 + i % 30
        files[f"training.{i:02}.gz"] = gzip.compress(records_of(positions_of(GAME[:length]), GAME[:length]).tobytes())
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "training.17.gz").write_bytes(files["training.17.gz"][:-300])
    (folder / "training.18.gz").write_bytes(gzip.compress(records_of(positions_of(GAME), GAME, version=5).tobytes()))
    found, report = run(folder, per_game=1, min_ply=20, seed=2)
    assert report.parsed == 39
    assert report.rejected == {"training data of version 5": 1}
    assert [source for source, _, _ in report.examples] == [str(folder / "training.18.gz")]
    assert [source for source, _ in report.truncated] == [str(folder / "training.17.gz")]
    assert {p.origin.game for p in found} == {1}
    assert len({p.origin.source for p in found}) == len(found) > 10  # others are positions of an earlier file
    for p in found:
        ply = len(p.moves)
        assert ply < 25 + int(Path(p.origin.source).name.split(".")[1]) % 30
        assert p.moves == tuple(GAME[:ply])
    assert run(folder, per_game=1, min_ply=20, seed=2, threads=1)[0] == found
    alone = {str(folder / name): run(folder / name, per_game=1, min_ply=20, seed=2)[0] for name in sorted(files)[:5]}
    assert all(alone[p.origin.source] == [p] for p in found if p.origin.source in alone)


def test_draws_do_not_depend_on_threads_and_shares_nest(tmp_path: Path) -> None:
    records = records_of(positions_of(GAME), GAME)
    files = {}
    for i in range(60):
        moves = GAME[: 20 + i % 20]
        files[f"training.{i}.gz"] = gzip.compress(records[: len(moves)].tobytes())
    path = tar_of(tmp_path / "run.tar", files)
    for options in ({"per_game": 2}, {"positions": 15}, {"per_game": 1, "game_share": 0.5}):
        first, report = run(path, threads=1, seed=5, **options)
        assert run(path, threads=3, seed=5, **options)[0] == first
        assert report.games == 60
    small, _ = run(path, game_share=0.2, per_game=1)
    large, report = run(path, game_share=0.6, per_game=1)
    assert report.not_sampled > 10
    # A position of several games counts as the first of them that was drawn.
    assert {p.fen for p in small} < {p.fen for p in large}
