"""A whole repair with one command: the plan of its stages and their sizes, their state, and the result."""
