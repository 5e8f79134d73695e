// @ts-check
// The positions one by one: worst boards and the list.
import { draw, parseFen } from "./board.js";
import { element } from "./filters.js";
import { counted } from "./rates.js";
import { describe, make, opinions, signed } from "./words.js";

const BOARDS = 8;
const PAGE = 50;
const ABOUT_WORST = "At most one of each game. Arrows: blue the deep search's best move, orange and dashed the net's. The side to move is at the bottom.";

export class List {
  /** @param {any} points @param {(row: number, focus: boolean) => void} onOpen */
  constructor(points, onOpen) {
    this.points = points;
    this.onOpen = onOpen;
    this.shown = 0;
    element("more").addEventListener("click", () => this.more());
  }

  /** @param {Uint32Array} visible @param {number} threshold */
  draw(visible, threshold) {
    const { size } = this.points;
    /** @type {number[]} */
    this.candidates = Array.from(visible.filter((row) => this.points.isCandidate(row, threshold))).sort((a, b) => size[b] - size[a] || a - b);
    element("list-what").textContent = `${counted(this.candidates.length)} candidates${this.candidates.length > 1 ? ", the largest disagreement first" : ""}`;
    element("positions").replaceChildren();
    this.shown = 0;
    this.more();
    element("worst-what").textContent = this.candidates.length ? ABOUT_WORST : "No candidates at this threshold.";
    element("worst").replaceChildren(...this.worstOfGames().map((row) => make("li", {}, this.small(row))));
  }

  /** The worst candidates, one a game: others of the same game are often the same mistake again. */
  worstOfGames() {
    const { game } = this.points.columns;
    const games = new Set();
    const worst = [];
    for (const row of this.candidates) {
      if (worst.length === BOARDS) break;
      if (!games.has(game[row])) worst.push(row);
      games.add(game[row]);
    }
    return worst;
  }

  more() {
    const next = this.candidates.slice(this.shown, this.shown + PAGE);
    this.shown += next.length;
    element("positions").append(...next.map((row) => make("li", {}, this.button(row))));
    element("more").hidden = this.shown >= this.candidates.length;
  }

  /** @param {number} row */
  button(row) {
    const { points } = this;
    const made = make("button", { type: "button", onclick: () => this.onOpen(row, true) });
    made.dataset.position = String(points.columns.position_id[row]);
    made.append(this.difference(row), ` ${opinions(points, row).join(", ")} · ${describe(points, row)}`);
    return made;
  }

  /** With the sign's mark. @param {number} row */
  difference(row) {
    const off = this.points.off[row];
    return make("b", {}, `${off > 0 ? "▲" : "▼"} ${signed(off)}`);
  }

  /** @param {number} row */
  small(row) {
    const { points } = this;
    const arrows = [["deep", points.move("deep_best", row)], ["net", points.move("net_best", row)]];
    const board = draw(parseFen(points.fens[row]), { flipped: points.word("side", row) === "b", arrows, label: describe(points, row) });
    const made = make("button", { type: "button", className: "small-board", onclick: () => this.onOpen(row, true) }, board, make("span", {}, this.difference(row)), ...opinions(points, row).map((text) => make("span", {}, text)));
    made.dataset.position = String(points.columns.position_id[row]);
    return made;
  }
}
