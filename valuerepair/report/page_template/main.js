// @ts-check
// Unpacks the content, starts the charts, and lets filters, points, list and board act on each other.
import { drawHistogram, drawRates } from "./charts.js";
import { Points, unpack, unpackText } from "./data.js";
import { Detail } from "./detail.js";
import { Filters, element, foldWhereNarrow, narrow } from "./filters.js";
import { guard } from "./guard.js";
import { List } from "./list.js";
import { counted } from "./rates.js";
import { Scatter } from "./scatter.js";
import { drawSummary } from "./summary.js";
import { values } from "./words.js";

class Page {
  /** @param {any} words @param {ArrayBuffer} numbers */
  constructor(words, numbers) {
    this.points = new Points(words, numbers);
    /** @type {HTMLElement | null} where the focus was before a board was opened */
    this.origin = null;
    this.filters = new Filters(this.points, words.threshold, () => this.soon());
    // Where the board is below the plot, the reader goes there with the point.
    this.scatter = new Scatter(this.points, words.lowess, (row) => this.open(row, narrow.matches));
    this.list = new List(this.points, (row, focus) => this.open(row, focus));
    this.detail = new Detail(this.points, { onStep: (by) => this.step(by), onLeave: () => this.leave() });
    element("scatter").addEventListener("keydown", (event) => this.onKey(event));
    drawSummary(words);
    this.draw();
  }

  /** Draws before the next frame, once for all changes until then. */
  soon() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      this.draw();
    });
  }

  draw() {
    const { points, filters } = this;
    const [rows, threshold] = [filters.rows(), filters.threshold];
    this.rows = rows;
    this.list.draw(rows, threshold);
    this.keepBoard();
    this.scatter.draw(rows, threshold, filters.open);
    drawHistogram(points, rows, threshold);
    drawRates(points, rows, threshold);
    const candidates = this.list.candidates.length;
    const counts = element("counts");
    counts.textContent = `${counted(rows.length)} positions shown, ${counted(candidates)} candidates`;
    Object.assign(counts.dataset, { positions: rows.length, candidates, draws: Number(counts.dataset.draws ?? 0) + 1 });
  }

  /** The board stays while its position fits the filters; else that of the worst that fits comes. The ring is drawn
   * with the points. */
  keepBoard() {
    if (this.detail.row >= 0 && this.rows.includes(this.detail.row)) return;
    const { size } = this.points;
    const worst = this.rows.reduce((found, row) => (found < 0 || size[row] > size[found] ? row : found), -1);
    this.scatter.marked = worst;
    if (worst >= 0) this.detail.open(worst, false);
    else this.detail.clear();
  }

  /** @param {number} row @param {boolean} focus */
  open(row, focus) {
    const active = /** @type {HTMLElement} */ (document.activeElement);
    if (!element("detail").contains(active)) this.origin = active;
    this.scatter.markRow(row);
    this.detail.open(row, focus);
  }

  leave() {
    (this.origin?.isConnected ? this.origin : element("scatter")).focus();
  }

  /** To the next or the previous position of the list. @param {number} by */
  step(by) {
    const rows = this.list.candidates;
    if (!rows.length) return;
    const here = rows.indexOf(this.detail.row);
    // From a position that is not in the list a step leads to the worst of it.
    const next = here < 0 && Math.abs(by) === 1 ? 0 : Math.min(Math.max(here + by, 0), rows.length - 1);
    this.open(rows[next], element("detail").contains(document.activeElement));
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -this.points.length, End: this.points.length };
    if (event.key in steps) this.step(steps[event.key]);
    else if (event.key === "Enter" && this.detail.row >= 0) this.open(this.detail.row, true);
    else return;
    event.preventDefault();
    const said = this.detail.row >= 0 ? values(this.points, this.detail.row) : "no position";
    element("scatter").setAttribute("aria-label", `${element("scatter-title").textContent}; at ${said}`);
  }
}

/** Light, dark, or as the system says; kept for the next look where the browser allows it. */
function followTheme(onChange) {
  const choice = element("theme");
  const set = (name) => {
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    onChange();
  };
  choice.addEventListener("change", () => set(choice.value));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", onChange);
}

async function start() {
  const notice = element("notice");
  try {
    const [plotly, words, numbers] = await Promise.all([unpackText("plotly"), unpackText("words"), unpack("numbers")]);
    guard(plotly);
    const script = document.createElement("script");
    script.textContent = plotly;
    document.head.append(script);
    element("main").hidden = false;
    foldWhereNarrow();
    const page = new Page(JSON.parse(words), numbers);
    followTheme(() => page.draw());
    notice.hidden = true;
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    notice.textContent = `This report cannot be shown (${error}). A browser of 2023 or later is needed.`;
    throw error;
  }
}

start();
