"""Games: self-play from book lines, matches, and figures of their results."""
