"""An experiment's games are kept and never played twice, whatever cuts them off."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from tests.experiment_doubles import CONDITIONS, self_play
from tests.play_doubles import ScriptedPlayer
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.play.experiment import (
    Conditions,
    Played,
    Trial,
    game_file,
    play_trial,
    trial_path,
)


def run(trial: Trial, folder: Path, conditions: Conditions = CONDITIONS) -> tuple[list[Played], dict[int, Played]]:
    with game_file(folder, trial, conditions) as kept:
        new = list(play_trial(trial, kept, conditions, lambda side: ScriptedPlayer(side.name)))
        return new, dict(kept.games)


@pytest.mark.parametrize("cut", [1, 40])
def test_what_was_cut_off_before_the_first_game_is_written_anew(tmp_path: Path, cut: int) -> None:
    """A kill or a full disk while the first line was written: it is the line that says what the games are of."""
    trial = self_play(3)
    run(trial, tmp_path)
    path = trial_path(tmp_path, trial.name)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    run(trial, tmp_path)
    assert sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines())
    assert run(trial, tmp_path)[0] == []


def test_a_full_disk_leaves_whole_games_only(tmp_path: Path) -> None:
    trial = self_play(6)
    run(trial, tmp_path)
    path = trial_path(tmp_path, trial.name)
    whole = path.read_bytes()
    path.unlink()
    # In the third game a write takes what fits, and the next one nothing, as on a full disk.
    room = len(b"".join(whole.splitlines(keepends=True)[:3])) + 30
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(ValueRepairError, match="all games before are kept: make room"):
            run(trial, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    kept = path.read_bytes()
    assert kept.endswith(b"}\n")
    assert kept.count(b"\n") >= 3
    run(trial, tmp_path)
    assert sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines())


def test_games_are_kept_and_more_can_be_asked_for(tmp_path: Path) -> None:
    new, kept = run(self_play(5), tmp_path)
    assert len(new) == len(kept) == 5
    assert {game.opening for game in new} == {0, 1, 2}
    again, same = run(self_play(5), tmp_path)
    assert not again
    assert same == kept
    more, all_of_them = run(self_play(8), tmp_path)
    assert sorted(game.number for game in more) == [5, 6, 7]
    assert all_of_them | kept == all_of_them


def test_stopping_changes_no_game(tmp_path: Path) -> None:
    """Games that were stopped in the middle are those that would have been played at once."""
    _, whole = run(self_play(6), tmp_path / "at-once")
    trial = self_play(6)
    with game_file(tmp_path / "twice", trial, CONDITIONS) as kept:
        some = play_trial(trial, kept, CONDITIONS, lambda s: ScriptedPlayer(s.name), lambda: len(kept.games) >= 2)
        assert 2 <= len(list(some)) < 6
    assert run(trial, tmp_path / "twice")[1] == whole


def test_a_line_cut_off_is_played_again(tmp_path: Path) -> None:
    _, kept = run(self_play(4), tmp_path)
    path = next((tmp_path / "games").iterdir())
    path.write_bytes(path.read_bytes()[:-9])
    new, again = run(self_play(4), tmp_path)
    assert len(new) == 1
    assert again == kept
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_games_of_other_conditions_are_refused(tmp_path: Path) -> None:
    run(self_play(2), tmp_path)
    other = Conditions("another net", CONDITIONS.rules, seed=8, jobs=1)
    with pytest.raises(UsageError, match="played with other net, seed; give another folder"):
        run(self_play(2), tmp_path, other)


def test_what_is_no_file_of_games_is_refused(tmp_path: Path) -> None:
    run(self_play(2), tmp_path)
    path = next((tmp_path / "games").iterdir())
    path.write_text(path.read_text() + '{"number": 3}\n')
    with pytest.raises(ValueRepairError, match=r"a\.jsonl:4: not a game of an experiment"):
        run(self_play(4), tmp_path)


def test_one_writer_and_any_readers(tmp_path: Path) -> None:
    trial = self_play(3)
    with game_file(tmp_path, trial, CONDITIONS) as first:
        first.begin()
        with game_file(tmp_path, trial, CONDITIONS) as second, pytest.raises(ValueRepairError, match="another vr"):
            second.begin()
    run(trial, tmp_path)
