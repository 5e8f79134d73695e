"""Reads the headers of a game without parsing its moves: for filters, and to leave out variants."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from valuerepair.archives.open import read_text
from valuerepair.archives.options import SampleOptions, fits_time_control
from valuerepair.chess.origins import Recorded

_DIGITS = 18  # below 2**63; Python itself reads at most 4,300
_MOST = 10**_DIGITS


def int_of_text(text: str) -> int | None:
    """A text with a whole number, with or without a sign, as an int; None for other text, or more than 18 digits."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return int(text) if len(digits) <= _DIGITS and digits.isdecimal() else None


def int_of_json(value: object) -> int | None:
    """The whole part of a JSON number; None for another value, or a number that is too large."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if abs(value) < _MOST else None


def is_plausible(recorded: Recorded) -> bool:
    """Whether no number of the evaluation is too large for an engine."""
    numbers = (recorded.cp, recorded.mate, recorded.depth, recorded.seldepth, recorded.nodes, recorded.time_ms)
    return all(number is None or -_MOST < number < _MOST for number in numbers)


# The headers that positions keep.
POSITION_HEADERS = (
    "Event", "Site", "Date", "UTCDate", "Round", "White", "Black", "WhiteElo", "BlackElo", "Result", "TimeControl",
    "Termination", "ECO", "FEN", "Variant",
)  # fmt: skip
_POSITION_NAMES = {spelling: name for name in POSITION_HEADERS for spelling in (name, name.lower())}
GAME_RESULTS = ("1-0", "0-1", "1/2-1/2")
STANDARD_VARIANTS = (
    "", "?", "-", "standard", "chess", "normal", "regular", "classical", "from position", "fromposition",
)  # fmt: skip
_HEADER = re.compile(rb"(?:\s*(?:\xef\xbb\xbf)?(?:\[[^\n]*|%[^\n]*)(?:\n|\Z))*")
# A value ends at the last quote of the line, because many archives have unescaped quotes in names, where the Rust
# reader stops. A tag begins its line: otherwise megabytes of unfinished tags on one line would take quadratic time.
_TAG = re.compile(r'^[^\S\n\ufeff]*\ufeff?[^\S\n]*\[\s*(\w+)\s+"([^\n]*)"\s*\]', re.MULTILINE)
_LAST_RESULT = re.compile(rb"(1-0|0-1|1/2-1/2)\s*\Z")


def read_headers(text: bytes) -> dict[str, str]:
    """The tags of a game, names as written; the last one of a repeated tag counts, as in the Rust reader."""
    header = _HEADER.match(text)
    block = text[: header.end()] if header and header.end() else text.split(b"\n", 1)[0]
    return _tags(read_text(block))


def movetext(text: bytes) -> bytes:
    """The text after the tags of a game."""
    header = _HEADER.match(text)
    return text[header.end() :] if header else text


def position_headers(header: bytes) -> dict[str, str]:
    """The tags that positions keep, from a game's text before its moves."""
    return {_POSITION_NAMES[name]: value for name, value in _tags(read_text(header)).items() if name in _POSITION_NAMES}


def _tags(header: str) -> dict[str, str]:
    """All tags by name; PGN's backslashes are removed from their values."""
    tags = dict(_TAG.findall(header))
    if "\\" in header:
        return {name: value.replace('\\"', '"').replace("\\\\", "\\") for name, value in tags.items()}
    return tags


def header_reject(text: bytes, options: SampleOptions) -> str | None:
    """Why the options leave a game out because of its headers; None if they do not."""
    if not options.filters_headers:
        return None
    headers = read_headers(text)
    if options.min_elo is not None:
        ratings = [int_of_text(headers.get(tag, "").strip()) or 0 for tag in ("WhiteElo", "BlackElo")]
        if min(ratings) <= 0:
            return "no Elo"
        if min(ratings) < options.min_elo:
            return f"Elo below {options.min_elo}"
    if options.player is not None:
        name = options.player.casefold()
        if not any(name in headers.get(tag, "").casefold() for tag in ("White", "Black")):
            return "other players"
    if options.result is not None:
        result = game_result(headers, text)
        if result is None:
            return "no result"
        if result != options.result and not (options.result == "decisive" and result in ("1-0", "0-1")):
            return "other result"
    if options.time_control is not None:
        is_wanted = fits_time_control(headers.get("TimeControl", ""), options.time_control)
        if is_wanted is None:
            return "no known time control"
        if not is_wanted:
            return "other time control"
    return None


def variant_reject(headers: Mapping[str, str]) -> str | None:
    """Why a game is not standard chess (its Variant tag, or castling rights of Chess960); None if it is."""
    tags = {name.lower(): value for name, value in headers.items()}
    variant = tags.get("variant", "").strip()
    if variant.lower() not in STANDARD_VARIANTS:
        is960 = variant.lower().replace(" ", "") in ("chess960", "fischerandom", "fischerrandom", "freestyle", "960")
        return "Chess960" if is960 else f"variant {variant[:30]}"
    fen = tags.get("fen")
    return "Chess960" if fen and _castles_960(fen) else None


def _castles_960(fen: str) -> bool:
    """Whether the FEN has castling rights that standard chess lacks: other letters, or king or rook not at home."""
    fields = fen.split()
    if len(fields) < 3 or fields[2] == "-":
        return False
    ranks = ["".join("." * int(c) if c in "12345678" else c for c in rank) for rank in fields[0].split("/")]
    if len(ranks) != 8 or any(len(rank) != 8 for rank in ranks):
        return False  # not a FEN: the reader rejects it
    homes = {"K": (7, 4, "K", 7, "R"), "Q": (7, 4, "K", 0, "R"), "k": (0, 4, "k", 7, "r"), "q": (0, 4, "k", 0, "r")}
    for right in fields[2]:
        if right not in homes:
            return right.upper() in "ABCDEFGH"
        rank, king_file, king, rook_file, rook = homes[right]
        moved = ranks[rank][king_file] != king
        if moved and king in ranks[rank] and rook in ranks[rank]:
            return True
        if not moved and ranks[rank][rook_file] != rook and rook in ranks[rank]:
            return True
    return False


def game_result(headers: Mapping[str, str], text: bytes) -> str | None:
    """The game's result from its tag; if the tag has no result, from the end of the movetext; else None."""
    result = headers.get("Result", "")
    if result in GAME_RESULTS:
        return result
    last = _LAST_RESULT.search(text[-40:])
    return last[1].decode("ascii") if last else None
