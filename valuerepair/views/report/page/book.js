// @ts-check
// Books of chosen positions. Every piece of text was written by valuerepair.books; here it is only put together.

/** @param {any} points @param {number} row */
function pgnEntry(points, row) {
  const [fen, tags] = points.rows[row];
  const known = points.movetexts[row];
  const rest = known ?? `[SetUp "1"]\n[FEN "${fen}"]\n\n*\n\n`;
  return points.game(row).tags + tags + rest;
}

/** @param {any} points @param {number} row */
function epdEntry(points, row) {
  const [fen, , operations] = points.rows[row];
  return `${fen.split(" ").slice(0, 4).join(" ")} ${operations}\n`;
}

/**
 * The text of a book, and how many of the rows are not in it because lc0 would play no game from there.
 * @param {any} points @param {number[]} rows @param {"pgn" | "epd"} kind
 */
export function bookOf(points, rows, kind) {
  const usable = rows.filter((row) => points.columns.playable[row]);
  const entry = kind === "pgn" ? pgnEntry : epdEntry;
  return { text: usable.map((row) => entry(points, row)).join(""), entries: usable.length, leftOut: rows.length - usable.length };
}

/** @param {string} name @param {string} text */
export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
