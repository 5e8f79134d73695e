"""The version of this package. It is in every file that the package writes, and heads CHANGELOG.md."""

__version__ = "1.0.0"
