"""The training record's layout and its policy's order, against what lc0 writes down in its sources."""

from __future__ import annotations

from valuerepair.chess import v6


def test_offsets_are_those_of_the_packed_struct() -> None:
    fields = v6.RECORD.fields
    assert fields is not None
    offsets = {name: fields[name][1] for name in fields}
    assert v6.RECORD.itemsize == 8356
    assert offsets["version"] == 0
    assert offsets["probabilities"] == 8
    assert offsets["planes"] == 7440
    assert offsets["castling_us_ooo"] == 8272
    assert offsets["side_to_move_or_enpassant"] == 8276
    assert offsets["invariance_info"] == 8278
    assert offsets["root_q"] == 8280
    assert offsets["plies_left"] == 8304
    assert offsets["orig_q"] == 8328
    assert offsets["visits"] == 8340
    assert offsets["best_idx"] == 8346
    assert offsets["policy_kld"] == 8348
    assert v6.FACTS.itemsize == 8356 - 8272
    assert v6.FACTS.fields is not None
    assert all(v6.FACTS.fields[name][1] == offsets[name] - 8272 for name in v6.FACTS.names or ())
