"""The version of this package: in every file that it writes, and the first heading of CHANGELOG.md."""

__version__ = "0.2.0"
