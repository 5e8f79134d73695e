"""Deep evaluators (oracles) behind one protocol: UCI engines, and our own search."""
