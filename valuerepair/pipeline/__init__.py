"""The whole loop by one command: what to run, how much of it, what is done already, and what came of it."""
