"""Deep evaluators (judges) behind one protocol: UCI engines, and our own search."""
