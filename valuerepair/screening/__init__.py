"""The screening ladder: which positions are searched deeper, which are cut, and what the cuts missed."""
