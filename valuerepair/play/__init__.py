"""Games: self-play from book lines, matches, and what their results say."""
