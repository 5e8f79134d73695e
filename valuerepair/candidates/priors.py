"""What the net's policy thinks of the moves that matter in a candidate: its own, the oracle's and the one played."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from valuerepair.board import legal_moves, parse_fens
from valuerepair.nets.net import Priors
from valuerepair.positions import PositionBatch, decode_move
from valuerepair.progress import Progress
from valuerepair.store import Store
from valuerepair.store.priors import Prior, Question, add, batch_of, of, questions

BATCH_ROWS = 1024


@runtime_checkable
class PolicyNet(Protocol):
    """A net with a policy; `valuerepair.nets.Net` is one."""

    def priors(self, batch: PositionBatch) -> Priors: ...


def add_priors(
    store: Store,
    net: object,
    net_id: int,
    oracle_id: int,
    position_ids: Sequence[int],
    progress: Progress | None = None,
) -> int:
    """Keeps the priors of the net's, the oracle's and the played move of these positions; says of how many it did.

    Positions whose priors are all there are passed over. The others go through the net in batches of `BATCH_ROWS`, each
    committed when it is done: after an interruption the same call goes on. A `net` that is no `PolicyNet`, such as one
    whose values an archive holds, adds nothing.
    """
    if not isinstance(net, PolicyNet):
        return 0
    missing, done = missing_priors(store, net_id, oracle_id, position_ids), 0
    for start in range(0, len(missing), BATCH_ROWS):
        asked = missing[start : start + BATCH_ROWS]
        add(store, net_id, rows_of(asked, net.priors(batch_of(asked))))
        store.commit()
        done += len(asked)
        if progress is not None:
            progress.advance(len(asked))
    return done


def missing_priors(store: Store, net_id: int, oracle_id: int, position_ids: Sequence[int]) -> list[Question]:
    """Those of the positions of which a prior is not there yet, with their legal moves of interest.

    Positions without a legal move are never among them.
    """
    known = of(store, net_id, position_ids)
    there: dict[int, set[str]] = {}
    for number, move in zip(known["position_id"].tolist(), known["move"], strict=True):
        there.setdefault(number, set()).add(move)
    firsts = set(known["position_id"][known["rank"] == 1].tolist())
    return [
        question
        for question in _legal(questions(store, oracle_id, position_ids))
        if question.position_id not in firsts or not _of_interest(question) <= there[question.position_id]
    ]


def rows_of(asked: Sequence[Question], priors: Priors) -> Iterator[Prior]:
    """The priors to keep: of the first move, and of the moves of interest.

    A move's rank is 1 and the number of moves that the net gives more; of several first moves the one that is listed
    first is kept, as in the net's values.
    """
    moves, offsets, p = priors
    for i, question in enumerate(asked):
        mine = slice(offsets[i], offsets[i + 1])
        names, shares = [decode_move(move) for move in moves[mine].tolist()], p[mine]
        wanted = _of_interest(question) | {names[int(np.argmax(shares))]}
        for move in sorted(wanted):
            share = shares[names.index(move)]
            yield Prior(question.position_id, move, float(share), 1 + int((shares > share).sum()))


def _of_interest(question: Question) -> set[str]:
    return {move for move in (question.played, question.deep_best) if move is not None}


def _legal(asked: Sequence[Question]) -> list[Question]:
    """The questions of positions with legal moves, without moves that are none: recorded moves are others' words."""
    moves, offsets = legal_moves(parse_fens([question.position.fen for question in asked]))
    kept = []
    for i, question in enumerate(asked):
        names = {decode_move(move) for move in moves[offsets[i] : offsets[i + 1]].tolist()}
        if names:
            played, best = (move if move in names else None for move in (question.played, question.deep_best))
            kept.append(question._replace(played=played, deep_best=best))
    return kept
