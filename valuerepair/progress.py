"""Progress of long work; see `chess.progress`."""

from valuerepair.chess.progress import Progress, format_duration, format_nodes, format_rate, remarks_to

__all__ = ["Progress", "format_duration", "format_nodes", "format_rate", "remarks_to"]
