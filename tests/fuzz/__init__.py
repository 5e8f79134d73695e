"""Fuzzing: mutated inputs, and the parsers that must take them. See docs/reliability.md."""
