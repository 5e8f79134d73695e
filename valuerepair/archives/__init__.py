"""Where positions come from: PGN, EPD and FEN archives, opened, split into games, filtered, sampled, deduplicated."""
