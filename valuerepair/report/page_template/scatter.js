// @ts-check
// Net Q against deep Q: every position a point (WebGL where there is any), chosen by click or keys.
import { PLAIN, colours, layout, note } from "./charts.js";
import { element } from "./filters.js";
import { values } from "./words.js";

// Without WebGL each point is an element of its own.
const MOST_WITHOUT_WEBGL = 5000;

function hasWebGL() {
  const canvas = document.createElement("canvas");
  return Boolean(canvas.getContext("webgl2") || canvas.getContext("webgl"));
}

export class Scatter {
  /** @param {any} points @param {any} line of all positions @param {(row: number) => void} onOpen */
  constructor(points, line, onOpen) {
    this.points = points;
    this.line = line;
    this.onOpen = onOpen;
    this.box = element("scatter");
    this.webgl = hasWebGL();
    /** @type {Uint32Array[]} rows of each trace of points */
    this.traces = [];
    this.marked = -1;
  }

  /** @param {Uint32Array} rows @param {number} threshold @param {boolean} whole whether no filter is set */
  draw(rows, threshold, whole) {
    this.rows = rows;
    this.whole = whole;
    this.threshold = threshold;
    const candidates = rows.filter((row) => this.points.isCandidate(row, threshold));
    this.traces = [
      rows.filter((row) => !this.points.isCandidate(row, threshold)),
      candidates.filter((row) => this.points.off[row] > 0),
      candidates.filter((row) => this.points.off[row] < 0),
    ];
    if (!this.webgl) this.traces = this.traces.map((rows) => rows.filter((_, i) => i % Math.ceil(rows.length / (MOST_WITHOUT_WEBGL / 3)) === 0));
    this.react();
  }

  react() {
    const { ink, grey, optimistic, pessimistic, band } = colours();
    const crowd = Math.max(Math.log10(Math.max(this.rows.length, 100)) - 2, 0);
    const [size, opacity] = [Math.max(6 - crowd, 3), Math.max(0.75 - 0.15 * crowd, 0.2)];
    const looks = [
      { color: grey, symbol: "circle", size, opacity },
      { color: optimistic, symbol: "triangle-up", size: size + 2, opacity: Math.min(opacity + 0.3, 0.95) },
      { color: pessimistic, symbol: "triangle-down", size: size + 2, opacity: Math.min(opacity + 0.3, 0.95) },
    ];
    const traces = this.traces.map((rows, i) => this.trace(rows, looks[i]));
    const line = (this.whole ? this.line : null) ?? [[], []];
    traces.push({ type: "scatter", mode: "lines", x: line[0], y: line[1], line: { color: ink, width: 2.5 }, hoverinfo: "skip" });
    traces.push(this.mark());
    const t = this.threshold;
    const corners = [[-1, -1 - t], [1, 1 - t], [1, 1 + t], [-1, -1 + t]].map((corner) => corner.join(",")).join(" L ");
    const shapes = [
      { type: "path", path: `M ${corners} Z`, fillcolor: band, line: { width: 0 }, layer: "below" },
      { type: "line", x0: -1, y0: -1, x1: 1, y1: 1, line: { color: grey, width: 1, dash: "dash" }, layer: "below" },
    ];
    const axes = {
      xaxis: { title: { text: "deep Q, side to move" }, range: RANGE, constrain: "domain" },
      yaxis: { title: { text: "net Q, side to move" }, range: RANGE, scaleanchor: "x", constrain: "domain" },
    };
    const how = { ...axes, shapes, annotations: note(!this.rows.length), dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", hovermode: "closest", uirevision: "kept", clickmode: "event" };
    return Plotly.react(this.box, traces, layout(how), { ...PLAIN, doubleClick: "reset" }).then(() => this.listen());
  }

  /** Draws without WebGL where the library finds that it cannot use it, or the browser takes it away. */
  withoutWebGL() {
    if (!this.webgl) return;
    this.webgl = false;
    Plotly.purge(this.box);
    this.listening = false;
    this.draw(this.rows, this.threshold, this.whole);
  }

  /** @param {Uint32Array} rows @param {any} marker @returns {any} */
  trace(rows, marker) {
    const { deepQ, netQ } = this.points;
    return {
      type: this.webgl ? "scattergl" : "scatter",
      mode: "markers",
      x: Float64Array.from(rows, (row) => deepQ[row]),
      y: Float64Array.from(rows, (row) => netQ[row]),
      marker: { ...marker, line: { width: 0 } },
      hoverinfo: "none", // `say` shows more than the library could without a text for each point
    };
  }

  /** A ring around the position whose board is open; whole also where the plot ends, at Q 1. @returns {any} */
  mark() {
    const known = this.marked >= 0;
    return {
      type: "scatter",
      mode: "markers",
      x: known ? [this.points.deepQ[this.marked]] : [],
      y: known ? [this.points.netQ[this.marked]] : [],
      marker: { symbol: "circle-open", size: 17, color: colours().ink, line: { width: 3 } },
      cliponaxis: false,
      hoverinfo: "skip",
    };
  }

  listen() {
    if (this.listening) return;
    this.listening = true;
    if (this.box.querySelector(".no-webgl")) return this.withoutWebGL();
    this.box.on("plotly_webglcontextlost", () => this.withoutWebGL());
    this.box.on("plotly_click", (event) => {
      const point = event.points.find((each) => each.curveNumber < 3);
      element("tip").hidden = true;
      if (point) this.onOpen(this.traces[point.curveNumber][point.pointIndex]);
    });
    this.box.on("plotly_hover", (event) => this.say(event));
    this.box.on("plotly_unhover", () => (element("tip").hidden = true));
  }

  /** What the position under the mouse is, beside the mouse; a finger opens its board at once. @param {any} event */
  say({ event, points }) {
    const point = points.find((each) => each.curveNumber < 3);
    if (!point || matchMedia("(pointer: coarse)").matches) return;
    const tip = element("tip");
    tip.textContent = values(this.points, this.traces[point.curveNumber][point.pointIndex]);
    tip.hidden = false;
    const { left, right } = this.box.getBoundingClientRect();
    tip.style.left = `${Math.max(Math.min(event.clientX + 14, right - tip.offsetWidth), left)}px`;
    tip.style.top = `${event.clientY > 60 ? event.clientY - tip.offsetHeight - 10 : event.clientY + 20}px`;
  }

  /** @param {number} row */
  markRow(row) {
    this.marked = row;
    const { x, y } = this.mark();
    Plotly.restyle(this.box, { x: [x], y: [y] }, [4]);
  }
}

const RANGE = [-1.05, 1.05];
