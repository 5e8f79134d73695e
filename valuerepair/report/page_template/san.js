// @ts-check
// Moves in standard algebraic notation, of the positions that are looked at. Moves come from the store and are legal:
// what is looked for here is which other man could go there too, whether it is check, and whether anything is left.
import { play, square } from "./board.js";
import { squareName } from "./data.js";

/** @param {string} man @param {string} side */
function belongs(man, side) {
  return man !== "" && (man === man.toUpperCase()) === (side === "w");
}

/** Whether the man on a square strikes another one; a pawn's steps straight on are none. @param {string[]} men */
function strikes(men, from, to) {
  const [across, up] = [(to & 7) - (from & 7), (to >> 3) - (from >> 3)];
  const [wide, high] = [Math.abs(across), Math.abs(up)];
  const man = men[from];
  const kind = man.toUpperCase();
  if (kind === "P") return wide === 1 && up === (man === "P" ? 1 : -1);
  if (kind === "N") return wide * high === 2;
  if (kind === "K") return Math.max(wide, high) === 1;
  const [straight, slanted] = [!wide || !high, wide === high];
  if (!(kind === "R" ? straight : kind === "B" ? slanted : straight || slanted)) return false;
  const step = Math.sign(across) + 8 * Math.sign(up);
  for (let at = from + step; at !== to; at += step) if (men[at]) return false;
  return true;
}

/** Whether a side's king is attacked. @param {string[]} men @param {string} side */
function checked(men, side) {
  const king = men.indexOf(side === "w" ? "K" : "k");
  return men.some((man, from) => man !== "" && !belongs(man, side) && strikes(men, from, king));
}

/** Whether a man's way leaves its own king safe. @param {{men: string[], turn: string}} position */
function isSafe(position, from, to) {
  return !checked(play(position, squareName(from) + squareName(to)).men, position.turn);
}

/** Whether a pawn may step straight on to a square, were it not for its king. @param {string[]} men */
function steps(men, from, to) {
  const forward = men[from] === "P" ? 8 : -8;
  if (men[to] || men[from + forward]) return false;
  return to === from + forward || (to === from + 2 * forward && from >> 3 === (forward > 0 ? 1 : 6));
}

/** Whether the side to move, in check, has a move; `passed` is the square that a pawn has just passed, or -1. */
function canMove(position, passed) {
  const { men, turn } = position;
  const goes = (man, from, to) => {
    if (man.toUpperCase() !== "P") return strikes(men, from, to);
    return strikes(men, from, to) ? men[to] !== "" || to === passed : steps(men, from, to);
  };
  return men.some((man, from) => belongs(man, turn) && men.some((there, to) => !belongs(there, turn) && goes(man, from, to) && isSafe(position, from, to)));
}

/** What tells a man from others of its kind that may go to the same square: file, else rank, else both. */
function which(position, from, to) {
  const { men } = position;
  const others = [...men.keys()].filter((at) => at !== from && men[at] === men[from] && strikes(men, at, to) && isSafe(position, at, to));
  if (!others.length) return "";
  const [sameFile, sameRank] = [others.some((at) => (at & 7) === (from & 7)), others.some((at) => at >> 3 === from >> 3)];
  const [file, rank] = squareName(from);
  return (sameRank || !sameFile ? file : "") + (sameFile ? rank : "");
}

/** Nf3, exd8=Q+, O-O. @param {{men: string[], turn: string}} position @param {string} uci */
export function san(position, uci) {
  const [from, to] = [square(uci), square(uci.slice(2))];
  if (!belongs(position.men[from], position.turn)) return uci; // of no position that there is
  const kind = position.men[from].toUpperCase();
  const sideways = (to & 7) - (from & 7);
  const takes = position.men[to] || (kind === "P" && sideways) ? "x" : "";
  const man = kind === "P" ? (takes ? uci[0] : "") : kind + which(position, from, to);
  const promoted = uci[4] ? `=${uci[4].toUpperCase()}` : "";
  const castles = kind === "K" && Math.abs(sideways) === 2;
  const text = castles ? (sideways > 0 ? "O-O" : "O-O-O") : man + takes + squareName(to) + promoted;
  const after = play(position, uci);
  if (!checked(after.men, after.turn)) return text;
  const passed = kind === "P" && Math.abs(to - from) === 16 ? (from + to) / 2 : -1;
  return text + (canMove(after, passed) ? "+" : "#");
}

/** The number before a move: 19. or 19... @param {{turn: string, number: number}} position */
export function moveNumber(position) {
  return `${position.number}.${position.turn === "w" ? "" : ".."}`;
}
