"""valuerepair: find the positions a chess net judges badly wrong, and make the games that repair it."""

__version__ = "0.1.0"
