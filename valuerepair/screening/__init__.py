"""The screening ladder: which positions are searched deeper, who is cut, and what the cuts missed."""
