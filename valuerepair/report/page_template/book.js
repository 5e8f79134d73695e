// @ts-check
// Books of chosen positions, as valuerepair.books writes them. Text of games comes as tags and operands that are ready.
import { fixed } from "./rates.js";

const OPERAND = 200; // characters, as valuerepair.books.emit cuts them

/** A Q with sign, in ASCII. @param {number} q */
function tagged(q) {
  return Number.isNaN(q) ? "?" : (q < 0 || Object.is(q, -0) ? "" : "+") + fixed(q, 3);
}

/** The weight for training. @param {any} points @param {number} row */
function weightText(points, row) {
  return (points.columns.book_weight[row] / points.weightSteps).toFixed(4);
}

/** @param {any} points @param {number} row */
function pgnEntry(points, row) {
  const { netQ, calibratedQ, deepQ, off } = points;
  const tags = {
    NetQ: tagged(netQ[row]),
    ...(calibratedQ && { CalibratedQ: tagged(calibratedQ[row]) }),
    DeepQ: tagged(deepQ[row]),
    Disagreement: tagged(off[row]),
    Weight: weightText(points, row),
  };
  const text = Object.entries(tags).map(([name, value]) => `[${name} "${value}"]\n`);
  const rest = points.movetexts[row] ?? `[SetUp "1"]\n[FEN "${points.fens[row]}"]\n\n*\n\n`;
  return points.game(row).tags + text.join("") + rest;
}

/** @param {any} points @param {number} row */
function epdEntry(points, row) {
  const { netQ, calibratedQ, deepQ, off, columns } = points;
  const calibrated = calibratedQ ? ` calibrated_q ${tagged(calibratedQ[row])}` : "";
  const [placement, side, castling, passing, clock, number] = points.fens[row].split(" ");
  const quoted = (text) => `"${Array.from(text).slice(0, OPERAND).join("")}"`;
  const [cp, mate] = [columns.cp[row], columns.mate[row]];
  const operations = [
    `c0 ${quoted(`net_q ${tagged(netQ[row])}${calibrated} deep_q ${tagged(deepQ[row])} difference ${tagged(off[row])}`)};`,
    `c1 ${quoted(`weight ${weightText(points, row)}`)};`,
    ...(Number.isNaN(cp) ? (mate > 0 ? [`dm ${mate};`] : []) : [`ce ${cp};`]),
    `fmvn ${number};`,
    `hmvc ${clock};`,
    `id ${quoted(`${points.game(row).operand} ply ${columns.ply[row]}`)};`,
  ];
  return `${[placement, side, castling, passing, ...operations].join(" ")}\n`;
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
