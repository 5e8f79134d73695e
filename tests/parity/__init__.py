"""Comparisons with other programs over many positions; each module is also a script."""
