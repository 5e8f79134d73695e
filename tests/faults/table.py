"""The rows of the table of faults, and their place in a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BEGIN, END = "<!-- faults: written by pytest -m faults -->", "<!-- faults: end -->"
HEAD = "| Fault | Tried | Committed work lost | What is said | Exit code |\n|---|---:|---|---|---|\n"


@dataclass(frozen=True)
class Row:
    """One fault: how many times it was made, what was lost of what was committed, what was said, the exit code."""

    fault: str
    tried: int
    lost: str
    said: str
    code: str

    def line(self) -> str:
        """The row in Markdown; the text of messages may hold pipes."""
        cells = (self.fault, f"{self.tried:,}", self.lost, self.said, self.code)
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def write_table(path: Path, rows: list[Row]) -> None:
    """Puts the rows between the page's two marks; rows of faults that were not tried in this run stay."""
    page = path.read_text()
    before, _, rest = page.partition(BEGIN)
    old, _, after = rest.partition(END)
    kept = {line.split(" | ")[0][2:]: line for line in old.splitlines() if line.startswith("| ") and "---" not in line}
    kept.pop("Fault", None)
    kept |= {row.fault: row.line() for row in rows}
    path.write_text(f"{before}{BEGIN}\n\n{HEAD}" + "".join(f"{line}\n" for line in kept.values()) + f"\n{END}{after}")
