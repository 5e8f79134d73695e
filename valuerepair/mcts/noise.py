"""Dirichlet noise on the priors of a root, as in lc0 (classic/search.cc, ApplyDirichletNoise)."""

from __future__ import annotations

import numpy as np

from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.tree import ARRANGED, COUNT, FIRST, RANDOM, Trees


def add_noise(trees: Trees, tree: int, root: int, params: SearchParams) -> None:
    """P = (1 - epsilon) P + epsilon * Dir(alpha) for an expanded root without visited moves.

    Seeded by the tree's own random state, which depends on the search's seed and the position only.
    """
    first, count = trees.nodes[root, [FIRST, COUNT]].tolist()
    draws = np.random.default_rng(abs(int(trees.slots[tree, RANDOM]))).gamma(params.noise_alpha, 1.0, count)
    total = draws.sum()
    if total < np.finfo(np.float32).tiny:
        return
    priors = trees.prior[first : first + count]
    priors[:] = priors * (1 - params.noise_epsilon) + params.noise_epsilon * draws / total
    trees.nodes[root, ARRANGED] = 0
