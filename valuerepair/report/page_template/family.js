// @ts-check
// The family of a position: what vr expand reached from its root, as a picture of strokes and points.
import { svg } from "./board.js";
import { both, make, signed } from "./words.js";

const [DOWN, SIDE, HEAD] = [22, 16, 34];
// Plies are so far apart that all fit into the card, if they can; numbers above them keep their distance.
const [ROOM, NARROW, WIDE, BETWEEN] = [430, 15, 26, 24];

/**
 * A position of a family: its place in the picture, how it was reached, what net and search say.
 * @param {any[]} cells @param {string[]} marks
 */
function member([id, ply, lane, after, mark, name, fen, netQ, calibratedQ, deepQ, off], marks) {
  return { id, ply, lane, after, mark: marks[mark], name, fen, netQ, calibratedQ, deepQ, off };
}

export class Family {
  /**
   * `position` is the number of the one whose card it is; `onOpen` is called with the member whose board is to be shown.
   * @param {any} families @param {number} position @param {(member: any) => void} onOpen
   */
  constructor(families, position, onOpen) {
    const root = families.roots[position];
    this.members = (families.trees[root] ?? []).map((cells) => member(cells, families.marks));
    this.here = this.members.findIndex((each) => each.id === position);
    this.at = this.here;
    this.onOpen = onOpen;
    const [plies, lanes] = [this.members.map((each) => each.ply), this.members.map((each) => each.lane)];
    [this.first, this.top] = [Math.min(...plies), Math.min(...lanes)];
    const across = Math.max(...plies) - this.first;
    this.across = Math.min(Math.max((ROOM - 2 * SIDE) / across, NARROW), WIDE);
    this.width = this.across * across + 2 * SIDE;
    this.height = DOWN * (Math.max(...lanes) - this.top) + HEAD + SIDE;
  }

  /** Nothing where there is no family. @returns {HTMLElement[]} */
  parts() {
    if (!this.members.length) return [];
    const found = this.members.filter((each) => each.mark.endsWith("candidate")).length;
    this.points = this.members.map((each, i) => this.point(each, i));
    const { width, height } = this;
    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "family", role: "listbox", "aria-label": "Positions reached from the root" }, ...this.axis(), ...this.strokes(), ...this.points);
    this.box = make("div", { className: "family-box" }, picture);
    this.box.addEventListener("keydown", (event) => this.onKey(event));
    const title = `Family: ${this.members.length - 1} positions reached from position ${this.members[0].id}; candidates: ${found} of ${this.members.length}`;
    this.said = make("p", { className: "small", id: "family-at", role: "status" });
    this.mark();
    return [make("div", {}, make("h3", {}, title), this.box, this.said, this.key())];
  }

  /** Brings the position of the card into view, where the picture is wider than the card. */
  centre() {
    if (!this.box) return;
    const [x, y] = this.place(this.members[this.here]);
    this.box.scrollTo(x - this.box.clientWidth / 2, y - this.box.clientHeight / 2);
  }

  /** @param {{ply: number, lane: number}} place */
  place({ ply, lane }) {
    return [SIDE + this.across * (ply - this.first), HEAD + DOWN * (lane - this.top)];
  }

  /** Plies from the root, above; a vertical line where it stands. */
  axis() {
    const plies = [...new Set(this.members.map((each) => each.ply))].sort((a, b) => Math.abs(a) - Math.abs(b));
    /** @type {number[]} the root's first, then outward, those that have room */
    const told = [];
    for (const ply of plies) if (told.every((other) => Math.abs(ply - other) * this.across >= BETWEEN)) told.push(ply);
    const texts = told.map((ply) => {
      const made = svg("text", { x: this.place({ ply, lane: 0 })[0], y: 12, class: "ply", "aria-hidden": "true" });
      made.textContent = ply > 0 ? `+${ply}` : String(ply).replace("-", "−");
      return made;
    });
    const [x] = this.place({ ply: 0, lane: 0 });
    return [svg("line", { x1: x, x2: x, y1: 18, y2: this.height, class: "begin" }), ...texts];
  }

  strokes() {
    return this.members.filter((each) => each.after >= 0).map((each) => {
      const [[x1, y1], [x2, y2]] = [this.place(this.members[each.after]), this.place(each)];
      const bend = x1 + Math.sign(x2 - x1) * this.across * 0.5;
      const d = y1 === y2 ? `M${x1} ${y1}H${x2}` : `M${x1} ${y1}C${bend} ${y1} ${x1} ${y2} ${bend} ${y2}H${x2}`;
      return svg("path", { d, class: "stroke" });
    });
  }

  /** @param {any} each @param {number} i */
  point(each, i) {
    const [x, y] = this.place(each);
    const title = svg("title", {});
    title.textContent = this.words(each);
    const made = svg("g", { transform: `translate(${x}, ${y})`, class: `member ${each.mark.replaceAll(" ", "-")}`, role: "option", tabindex: "-1", "aria-label": this.words(each) }, title, svg("circle", { r: Math.min(10, this.across / 2), class: "room" }), ...shape(each.mark));
    if (i === 0) made.append(svg("circle", { r: 9, class: "root" }));
    made.addEventListener("click", () => this.open(i));
    return made;
  }

  /** @param {any} each */
  words(each) {
    const deep = each.deepQ === null ? each.mark : `deep ${signed(each.deepQ)}, difference ${signed(each.off)}: ${each.mark}`;
    return `${each.name}, position ${each.id}: net ${both(each.netQ ?? NaN, each.calibratedQ ?? NaN)}, ${deep}`;
  }

  key() {
    const kinds = { candidate: "candidate", "inferred candidate": "by an inferred value", none: "no candidate", "inferred none": "no candidate, inferred", cut: "cut by the ladder", failed: "search failed", "not searched": "not searched" };
    const there = Object.entries(kinds).filter(([mark]) => this.members.some((each) => each.mark === mark));
    const sample = (mark) => svg("svg", { viewBox: "-9 -9 18 18", width: 18, height: 18, class: "family", "aria-hidden": "true" }, svg("g", { class: `member ${mark.replaceAll(" ", "-")}` }, ...shape(mark)));
    const items = there.map(([mark, words]) => make("li", {}, sample(mark), ` ${words}`));
    return make("ul", { className: "key small" }, ...items, make("li", {}, "Across: plies from the root. Lines of the search are above the game, children below it."));
  }

  /** Shows the board of a member. @param {number} i */
  open(i) {
    this.at = i;
    this.mark();
    this.onOpen(i === this.here ? null : this.members[i]);
  }

  /** Back at the position of the card. */
  forget() {
    this.at = this.here;
    this.mark();
  }

  mark() {
    this.points?.forEach((point, i) => {
      point.classList.toggle("at", i === this.at);
      point.setAttribute("tabindex", i === this.at ? "0" : "-1");
      point.setAttribute("aria-selected", String(i === this.at));
    });
    if (this.said) this.said.textContent = this.words(this.members[this.at]);
  }

  /** Left and right go through the tree. @param {KeyboardEvent} event */
  onKey(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -this.members.length, End: this.members.length };
    if (!(event.key in steps)) return;
    const to = Math.min(Math.max(this.at + steps[event.key], 0), this.members.length - 1);
    this.open(to);
    this.points?.[to].focus();
    event.preventDefault();
    event.stopPropagation();
  }
}

/** Filled: a candidate; half: by an inferred value; hollow: none; a cross: cut. @param {string} mark */
function shape(mark) {
  if (mark === "cut" || mark === "failed") return [svg("path", { d: "M-4 -4L4 4M-4 4L4 -4", class: "cross" })];
  if (mark === "not searched") return [svg("circle", { r: 2.5, class: "fill" })];
  const ring = svg("circle", { r: 6, class: "ring" });
  if (mark === "candidate") return [ring, svg("circle", { r: 6, class: "fill" })];
  return mark === "inferred candidate" ? [ring, svg("path", { d: "M0 -6A6 6 0 0 1 0 6Z", class: "fill" })] : [ring];
}
