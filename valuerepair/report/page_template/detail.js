// @ts-check
// One position: its board with arrows, values, line, labels, game.
import { draw, moveNumber, parseFen, play, sample, san } from "./board.js";
import { element } from "./filters.js";
import { counted } from "./rates.js";
import { describe, make, signed, table, values } from "./words.js";

const ARROWS = [
  ["deep", "deep_best", "deep search's best move"],
  ["net", "net_best", "net's best move"],
  ["played", "played", "move played"],
];

export class Detail {
  /** @param {any} points @param {{onStep: (by: number) => void, onLeave: () => void}} events */
  constructor(points, events) {
    this.points = points;
    this.events = events;
    this.row = -1;
    this.ply = 0;
    this.flipped = false;
    this.section = element("detail");
    this.section.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** @param {number} row @param {boolean} focus */
  open(row, focus) {
    this.row = row;
    this.ply = 0;
    this.flipped = this.points.word("side", row) === "b";
    this.follow();
    element("detail-empty").hidden = true;
    const body = element("detail-body");
    body.hidden = false;
    body.replaceChildren(
      this.around(),
      make("p", { className: "what" }, describe(this.points, row)),
      make("div", { id: "board" }),
      this.legend(),
      this.numbers(),
      this.stepper(),
      this.about(),
      this.buttons(),
    );
    element("detail-title").textContent = `Position ${this.points.columns.position_id[row]}`;
    this.show();
    if (focus) {
      this.section.focus({ preventScroll: true });
      this.section.scrollIntoView({ block: "nearest" });
    }
  }

  /** Shows no position. */
  clear() {
    this.row = -1;
    element("detail-title").textContent = "Board";
    element("detail-body").hidden = true;
    element("detail-body").replaceChildren();
    element("detail-empty").hidden = false;
  }

  /** The positions along the line that the deep search expects. */
  follow() {
    this.line = this.points.line("pv", this.row);
    this.boards = [parseFen(this.points.fens[this.row])];
    for (const move of this.line) this.boards.push(play(this.boards[this.boards.length - 1], move));
  }

  around() {
    const step = (by, text, label) => make("button", { type: "button", onclick: () => this.events.onStep(by), "aria-label": label }, text);
    const flip = make("button", { type: "button", onclick: () => this.flip(), "aria-label": "turn the board" }, "Turn");
    return make("div", { className: "tools around" }, step(-1, "◀", "the position before, with a larger disagreement"), step(1, "▶", "the next position, with a smaller disagreement"), flip);
  }

  legend() {
    const list = make("ul", { className: "legend" });
    for (const [kind, column, words] of ARROWS) {
      const move = this.points.move(column, this.row);
      const said = move ? `${moveNumber(this.boards[0])} ${san(this.boards[0], move, this.points.columns[`${column}_san`][this.row])}` : "not known";
      list.append(make("li", {}, sample(kind), `${words}: ${said}`));
    }
    return list;
  }

  stepper() {
    const go = (to, text, label) => make("button", { type: "button", onclick: () => this.goTo(to()), "aria-label": label }, text);
    const moves = make("ol", { id: "pv", "aria-label": "Line of the deep search" });
    const flags = this.points.lineFlags(this.row);
    this.line.forEach((move, i) => {
      const position = this.boards[i];
      const number = i === 0 || position.turn === "w" ? [make("span", {}, moveNumber(position))] : [];
      moves.append(make("li", {}, ...number, make("button", { type: "button", onclick: () => this.goTo(i + 1) }, san(position, move, flags[i]))));
    });
    const tools = make(
      "div",
      { className: "tools", role: "group", "aria-label": "Step through the line (arrow keys)" },
      go(() => 0, "|◀", "to the position"),
      go(() => this.ply - 1, "◀", "one move back"),
      go(() => this.ply + 1, "▶", "one move on"),
      go(() => this.line.length, "▶|", "to the end of the line"),
      make("span", { id: "pv-at", role: "status" }),
    );
    return make("div", {}, tools, moves);
  }

  numbers() {
    const { columns } = this.points;
    const at = (name) => columns[name][this.row];
    const share = (name) => (Number.isNaN(at(name)) ? "?" : (100 * at(name)).toFixed(1));
    const score = Number.isNaN(at("mate")) ? (Number.isNaN(at("cp")) ? "" : `${at("cp")} cp`) : `mate in ${at("mate")}`;
    const rows = [
      ["net, 1 node", signed(at("net_q")), share("net_w"), share("net_d"), share("net_l"), ""],
      ["deep search", signed(at("deep_q")), share("deep_w"), share("deep_d"), share("deep_l"), score],
    ];
    if (!Number.isNaN(at("second_q"))) rows.push(["second look", signed(at("second_q")), "", "", "", ""]);
    return table("Values for the side to move", ["", "Q", "win %", "draw %", "loss %", "score"], rows);
  }

  about() {
    const { points, row } = this;
    const { columns } = points;
    const game = points.game(row);
    const who = (name) => `${game[name] ?? "?"}${game[`${name}_elo`] ? ` (${game[`${name}_elo`]})` : ""}`;
    const verdict = points.word("verdict", row);
    const facts = [
      ["Difference", signed(points.off[row])],
      ["Labels", points.labels(row).join(", ")],
      ["Second look", verdict || "none"],
      ["Searched", this.searched()],
      ["Game", `${who("white")} – ${who("black")}, ${game.result ?? "*"}`],
      ["Event", [game.event, game.site, game.date, game.round].filter((word) => word && word !== "?").join(", ")],
      ["From", `${game.source}, game ${game.number}, ply ${columns.ply[row]}`],
      ["FEN", points.fens[row]],
    ];
    if (columns.weight[row] !== 1) facts.push(["Stands for", `${columns.weight[row].toFixed(2)} positions`]);
    return make("dl", { className: "facts" }, ...facts.filter(([, text]) => text).flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));
  }

  /** Nodes and depth of the search; a recorded value may have neither. */
  searched() {
    const { columns } = this.points;
    const [nodes, depth] = [columns.nodes[this.row], columns.depth[this.row]];
    return [nodes ? `${counted(nodes)} nodes` : "", depth ? `depth ${depth}` : ""].filter((word) => word).join(", ");
  }

  buttons() {
    const fen = this.points.fens[this.row];
    const said = make("span", { role: "status", id: "copied" });
    const copy = (text, what) => make("button", { type: "button", onclick: () => copyText(text).then((done) => (said.textContent = done ? `${what} copied` : "copying is not allowed here")) }, `Copy ${what}`);
    const href = `https://lichess.org/analysis/standard/${encodeURI(fen.replaceAll(" ", "_"))}`;
    const link = make("a", { href, target: "_blank", rel: "noopener noreferrer" }, "Open in lichess's analysis board");
    return make("div", { className: "tools" }, copy(fen, "FEN"), copy(this.uci(), "UCI moves"), link, said);
  }

  /** The UCI command that sends the position with its history. */
  uci() {
    const start = this.points.start(this.row);
    const moves = this.points.line("moves", this.row);
    const from = start ? `position fen ${start}` : "position startpos";
    return moves.length ? `${from} moves ${moves.join(" ")}` : from;
  }

  flip() {
    this.flipped = !this.flipped;
    this.show();
  }

  /** @param {number} ply */
  goTo(ply) {
    this.ply = Math.min(Math.max(ply, 0), this.line.length);
    this.show();
  }

  show() {
    const arrows = this.ply ? [] : ARROWS.map(([kind, column]) => [kind, this.points.move(column, this.row)]);
    const label = `${describe(this.points, this.row)}; ${values(this.points, this.row)}; FEN ${this.points.fens[this.row]}`;
    const last = this.ply ? this.line[this.ply - 1] : "";
    element("board").replaceChildren(draw(this.boards[this.ply], { flipped: this.flipped, arrows, last, label }));
    document.querySelectorAll("#pv button").forEach((button, i) => button.setAttribute("aria-current", String(i + 1 === this.ply)));
    element("pv-at").textContent = this.line.length ? `move ${this.ply} of ${this.line.length}` : "no line";
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const steps = { ArrowLeft: this.ply - 1, ArrowRight: this.ply + 1, Home: 0, End: this.line?.length };
    if (this.row < 0) return;
    if (event.key in steps) this.goTo(steps[event.key]);
    else if (event.key === "PageDown") this.events.onStep(1);
    else if (event.key === "PageUp") this.events.onStep(-1);
    else if (event.key === "f") this.flip();
    else if (event.key === "Escape") this.events.onLeave();
    else return;
    event.preventDefault();
  }
}

/** @param {string} text */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", { value: text, className: "aside" });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
