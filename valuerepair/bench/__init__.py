"""Speed as ratios: both sides in one run, several repeats, the median."""
