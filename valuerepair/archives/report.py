"""What reading archives came to: how many games and positions, and why others were left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

EXAMPLES_PER_REASON = 3
TRUNCATED_SHOWN = 10


@dataclass(slots=True)
class ReadReport:
    """Counts of one run; for EPD and FEN files every line is a "game".

    Always ``games == parsed + sum(rejected.values()) + not_sampled``, and
    ``looked_at == sum(rejected_positions.values()) + not_drawn + duplicates + positions``.
    """

    bytes_read: int = 0  # decompressed
    games: int = 0  # found by the splitter
    not_sampled: int = 0  # games that `game_share` passed over, unparsed
    parsed: int = 0
    rejected: Counter[str] = field(default_factory=Counter)  # games, by reason
    looked_at: int = 0  # positions of parsed games in which a move was played
    rejected_positions: Counter[str] = field(default_factory=Counter)  # by filter
    not_drawn: int = 0  # eligible positions beyond `per_game` or `positions`
    duplicates: int = 0
    positions: int = 0  # handed out
    without_history: int = 0  # of these: known by their board alone
    examples: list[tuple[str, int, str]] = field(default_factory=list)  # (source, byte offset, reason)
    truncated: list[tuple[str, str]] = field(default_factory=list)  # (source, how it broke off)
    empty: list[str] = field(default_factory=list)  # sources without a single byte

    def reject(self, reason: str, source: str, offset: int, detail: str = "") -> None:
        """Counts a rejected game; the first few of each reason are kept with their place."""
        self.rejected[reason] += 1
        if self.rejected[reason] <= EXAMPLES_PER_REASON:
            self.examples.append((source, offset, f"{reason}: {detail}" if detail else reason))

    @property
    def adds_up(self) -> bool:
        """No game and no position was lost on the way (true when the run is finished)."""
        games = self.parsed + sum(self.rejected.values()) + self.not_sampled
        positions = sum(self.rejected_positions.values()) + self.not_drawn + self.duplicates + self.positions
        return self.games == games and self.looked_at == positions

    def lines(self) -> list[str]:
        """The report for printing."""
        lines = [f"games: {self.games:,} found, {self.parsed:,} parsed"]
        if self.not_sampled:
            lines[0] += f", {self.not_sampled:,} not sampled"
        rejected = sum(self.rejected.values())
        if rejected:
            lines[0] += f", {rejected:,} rejected"
            lines += [f"  {count:,} {reason}" for reason, count in self.rejected.most_common()]
            lines += [f"    {source} at byte {offset:,}: {what}" for source, offset, what in self.examples]
        lines.append(f"positions: {self.positions:,} sampled of {self.looked_at:,}")
        counts = [(count, reason) for reason, count in self.rejected_positions.most_common()]
        counts += [(self.duplicates, "seen before"), (self.not_drawn, "eligible, but not drawn")]
        lines += [f"  {count:,} {reason}" for count, reason in counts if count]
        if self.without_history:
            lines.append(f"known by their board alone, without moves before it: {self.without_history:,}")
        lines += [f"empty: {source}" for source in self.empty]
        lines += [f"broken off: {source}: {message}" for source, message in self.truncated[:TRUNCATED_SHOWN]]
        if len(self.truncated) > TRUNCATED_SHOWN:
            lines.append(f"broken off: {len(self.truncated) - TRUNCATED_SHOWN:,} more")
        return lines
