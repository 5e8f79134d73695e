"""Deep evaluators (oracles) behind one protocol: UCI engines, and the own search."""
