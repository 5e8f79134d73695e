"""Input of a trainer: lc0's training records of own games, mixtures of games, weights of positions."""
