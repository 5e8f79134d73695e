"""The whole loop by one command: the plan of the stages and their sizes, their state, and the result."""
