// @ts-check
// Boards as SVG, with python-chess's pieces. Moves come from the store and are legal: they are only carried out here.

const SVG = "http://www.w3.org/2000/svg";
const NAMES = { p: "pawn", n: "knight", b: "bishop", r: "rook", q: "queen", k: "king" };

/** Men by square (a1 is 0), empty strings for none, the side to move and the number of its move. @param {string} fen */
export function parseFen(fen) {
  const [placement, turn, , , , number] = fen.split(" ");
  /** @type {string[]} */
  const men = Array(64).fill("");
  placement.split("/").forEach((rank, i) => {
    let file = 0;
    for (const letter of rank) {
      if (/[1-8]/.test(letter)) file += Number(letter);
      else men[8 * (7 - i) + file++] = letter;
    }
  });
  return { men, turn, number: Number(number) };
}

/** @param {string} name as in UCI */
export function square(name) {
  return "abcdefgh".indexOf(name[0]) + 8 * (Number(name[1]) - 1);
}

/** The position after a move. @param {any} position of `parseFen` @param {string} uci */
export function play(position, uci) {
  const men = position.men.slice();
  const [from, to] = [square(uci), square(uci.slice(2))];
  const man = men[from];
  const sideways = (to & 7) - (from & 7);
  if (man.toLowerCase() === "p" && sideways && !men[to]) men[(from & 56) | (to & 7)] = ""; // en passant
  if (man.toLowerCase() === "k" && Math.abs(sideways) === 2) {
    const [corner, beside] = sideways > 0 ? [to + 1, to - 1] : [to - 2, to + 1];
    men[beside] = men[corner];
    men[corner] = "";
  }
  const promoted = uci[4] && (position.turn === "w" ? uci[4].toUpperCase() : uci[4]);
  men[to] = promoted || man;
  men[from] = "";
  const black = position.turn === "b";
  return { men, turn: black ? "w" : "b", number: position.number + (black ? 1 : 0) };
}

/**
 * A move in standard algebraic notation: Nf3, exd8=Q+, O-O. `flags` say what the board does not show: `san_flags` of
 * valuerepair.report.page.
 * @param {any} position of `parseFen` @param {string} uci @param {number} flags
 */
export function san({ men }, uci, flags) {
  const [from, to] = [square(uci), square(uci.slice(2))];
  if (!men[from]) return uci; // of no position that there is
  const kind = men[from].toUpperCase();
  const sideways = (to & 7) - (from & 7);
  const end = flags & 8 ? "#" : flags & 4 ? "+" : "";
  if (kind === "K" && Math.abs(sideways) === 2) return (sideways > 0 ? "O-O" : "O-O-O") + end;
  const takes = men[to] || (kind === "P" && sideways) ? "x" : "";
  const man = kind === "P" ? (takes ? uci[0] : "") : kind + (flags & 1 ? uci[0] : "") + (flags & 2 ? uci[1] : "");
  return man + takes + uci.slice(2, 4) + (uci[4] ? `=${uci[4].toUpperCase()}` : "") + end;
}

/** The number before a move: 19. or 19... @param {{turn: string, number: number}} position */
export function moveNumber(position) {
  return `${position.number}.${position.turn === "w" ? "" : ".."}`;
}

/** @param {string} tag @param {Record<string, string | number>} attributes @param {...Element} children */
export function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/**
 * A board. `arrows` are moves by kind (deep, net, played), drawn in this order, each narrower than the one before.
 * @param {{men: string[], turn: string}} position
 * @param {{flipped?: boolean, arrows?: [string, string][], last?: string, label: string}} how
 */
export function draw(position, { flipped = false, arrows = [], last = "", label }) {
  const place = (at) => (flipped ? [7 - (at & 7), at >> 3] : [at & 7, 7 - (at >> 3)]);
  const root = svg("svg", { viewBox: "0 0 360 360", class: "board", role: "img", "aria-label": label });
  const lit = last ? [square(last), square(last.slice(2))] : [];
  position.men.forEach((man, at) => {
    const [x, y] = place(at);
    const shade = ((at & 7) + (at >> 3)) & 1 ? "pale" : "deep";
    root.append(svg("rect", { x: 45 * x, y: 45 * y, width: 45, height: 45, class: `square ${shade}` }));
    if (lit.includes(at)) root.append(svg("rect", { x: 45 * x, y: 45 * y, width: 45, height: 45, class: "lit" }));
    if (!man) return;
    const colour = man === man.toUpperCase() ? "white" : "black";
    const piece = `#${colour}-${NAMES[man.toLowerCase()]}`;
    root.append(svg("use", { href: piece, transform: `translate(${45 * x}, ${45 * y})` }));
  });
  for (let i = 0; i < 8; i++) {
    const [file, rank] = flipped ? [7 - i, i] : [i, 7 - i];
    root.append(coordinate("abcdefgh"[file], 45 * i + 38, 357), coordinate(String(rank + 1), 2, 45 * i + 10));
  }
  for (const [kind, move] of arrows) if (move) root.append(arrow(kind, place(square(move)), place(square(move.slice(2)))));
  return root;
}

function coordinate(text, x, y) {
  const made = svg("text", { x, y, class: "coordinate", "aria-hidden": "true" });
  made.textContent = text;
  return made;
}

/** Kinds differ in colour, width, dashes and head: a triangle (deep), a diamond (net), a disc (played). */
export function arrow(kind, [x1, y1], [x2, y2]) {
  const [ax, ay, bx, by] = [x1, y1, x2, y2].map((part) => 45 * part + 22.5);
  const length = Math.hypot(bx - ax, by - ay) || 1;
  const [ux, uy] = [(bx - ax) / length, (by - ay) / length];
  const at = (along, aside) => `${bx + ux * along - uy * aside},${by + uy * along + ux * aside}`;
  const heads = {
    deep: () => svg("polygon", { points: `${at(4, 0)} ${at(-15, 11)} ${at(-15, -11)}`, class: "head" }),
    net: () => svg("polygon", { points: `${at(3, 0)} ${at(-7, 7)} ${at(-17, 0)} ${at(-7, -7)}`, class: "head" }),
    played: () => svg("circle", { cx: bx, cy: by, r: 5, class: "head" }),
  };
  const [ex, ey] = at(-12, 0).split(",");
  return svg("g", { class: `arrow ${kind}` }, svg("line", { x1: ax, y1: ay, x2: ex, y2: ey }), heads[kind]());
}

/** A sample of an arrow for the legend. @param {string} kind */
export function sample(kind) {
  return svg("svg", { viewBox: "0 0 90 45", class: "sample", "aria-hidden": "true" }, arrow(kind, [0, 0], [1, 0]));
}
