// @ts-check
// Histogram and rates, drawn by Plotly from what the filters leave.
import { element } from "./filters.js";
import { Share, counted, fixed } from "./rates.js";
import { make, table } from "./words.js";

const BIN = 0.05;
const NOTHING = "No position fits these filters.";
const MOST_GROUPS = 12;

/** Colours of the page's theme for Plotly, which knows no style sheets. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(
    ["ink", "paper", "grid", "grey", "band", "optimistic", "pessimistic", "accent"].map((name) => [name, get(name)]),
  );
}

/** What all charts have alike. @param {Record<string, any>} more */
export function layout(more) {
  const { ink, paper, grid } = colours();
  const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: grid, automargin: true };
  return {
    paper_bgcolor: paper,
    plot_bgcolor: paper,
    font: { color: ink, size: 13, family: "system-ui, sans-serif" },
    margin: { l: 50, r: 12, t: 10, b: 45 },
    showlegend: false,
    ...more,
    xaxis: { ...axis, ...more.xaxis },
    yaxis: { ...axis, ...more.yaxis },
  };
}

// Points are drawn with the screen's own pixels: twice as many, as the library would, is four times the work.
export const PLAIN = { displayModeBar: false, responsive: true, doubleClick: false, plotGlPixelRatio: devicePixelRatio };

/** What a chart of nothing says. @param {boolean} nothing @param {string} text @returns {any[]} */
export function note(nothing, text = NOTHING) {
  return nothing ? [{ text, xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false, bgcolor: colours().paper, borderpad: 6 }] : [];
}

/** Positions by disagreement, each counting by its weight. */
export function drawHistogram(points, rows, threshold) {
  const bins = Math.round(4 / BIN);
  const [inside, outside] = [new Float64Array(bins), new Float64Array(bins)];
  for (const row of rows) {
    const bin = Math.min(Math.max(Math.floor((points.off[row] + 2) / BIN + 1e-9), 0), bins - 1);
    (points.isCandidate(row, threshold) ? outside : inside)[bin] += points.weight[row];
  }
  const { grey, optimistic, pessimistic } = colours();
  const x = Array.from(inside, (_, i) => -2 + (i + 0.5) * BIN);
  const shades = x.map((middle) => (middle > 0 ? optimistic : pessimistic));
  const shared = { type: "bar", x, width: BIN, hovertemplate: "%{x:.2f}: %{y:,.0f}<extra></extra>" };
  const traces = [
    { ...shared, y: Array.from(inside), marker: { color: grey } },
    { ...shared, y: Array.from(outside), marker: { color: shades, pattern: { shape: x.map((at) => (at > 0 ? "/" : "\\")) } } },
  ];
  const lines = [-threshold, threshold].map((at) => ({
    type: "line", x0: at, x1: at, yref: "paper", y0: 0, y1: 1, line: { color: grey, dash: "dash", width: 1 },
  }));
  const most = Math.max(...x.map((_, i) => inside[i] + outside[i]), 1);
  const edge = Math.min(x.reduce((far, at, i) => (inside[i] + outside[i] ? Math.max(far, Math.abs(at)) : far), threshold) + 0.2, 2);
  const axes = {
    xaxis: { title: { text: "net Q − deep Q" }, range: [-edge, edge] },
    yaxis: { title: { text: "positions, log scale" }, type: "log", dtick: 1, range: [Math.log10(0.5), Math.log10(most * 1.5)] },
  };
  Plotly.react("histogram", traces, layout({ ...axes, barmode: "stack", bargap: 0, shapes: lines, annotations: note(!rows.length), height: 260 }), PLAIN);
}

/** Rates by group; groups with most positions first, but phases and sides in their own order. */
export function ratesBy(points, rows, threshold, name) {
  const words = points.words[name];
  const found = words.map(() => new Share());
  const { [name]: column } = points.columns;
  for (const row of rows) found[column[row]].add(points.isCandidate(row, threshold), points.weight[row]);
  const groups = words.map((word, i) => ({ word: word || "unknown", found: found[i] })).filter((each) => each.found.total);
  if (words.length > 3) groups.sort((a, b) => b.found.total - a.found.total);
  return groups.slice(0, MOST_GROUPS);
}

/** Of the candidates, the share that has a label; of blindness, of those whose policy is known. */
export function ratesOfLabels(points, rows, threshold) {
  const { labels, of_policy } = points.words;
  const blindness = labels.reduce((mask, label, i) => (of_policy.includes(label) ? mask | (1 << i) : mask), 0);
  const found = labels.map(() => new Share());
  for (const row of rows) {
    if (!points.isCandidate(row, threshold)) continue;
    const has = points.columns.labels[row];
    labels.forEach((_, i) => {
      if (blindness & (1 << i) && !(has & blindness)) return;
      found[i].add((has & (1 << i)) !== 0, points.weight[row]);
    });
  }
  return labels.map((word, i) => ({ word, found: found[i] })).filter((each) => each.found.count);
}

const SIDES = { w: "White to move", b: "Black to move" };
const CHARTS = [
  ["phase", "Phase", ratesBy],
  ["side", "Side to move", ratesBy],
  ["family", "Opening", ratesBy],
  ["material", "Pieces besides pawns", ratesBy],
  ["label", "Labels of the candidates", ratesOfLabels],
];

/** The charts of rates, each with its table. */
export function drawRates(points, rows, threshold) {
  const box = element("rates");
  for (const [name, title, count] of CHARTS) {
    if (!document.getElementById(`rates-${name}`)) {
      const chart = make("div", { id: `rates-${name}`, className: "chart low", role: "img", "aria-label": `${title}: see the table` });
      const words = make("details", {}, make("summary", {}, "as a table"), make("div", { id: `table-${name}` }));
      box.append(make("section", {}, make("h3", {}, title), chart, words));
    }
    const groups = count(points, rows, threshold, name).map(({ word, found }) => ({ word: SIDES[word] ?? word, found }));
    drawGroups(`rates-${name}`, groups, rows.length ? "No candidates at this threshold." : NOTHING);
    const of = name === "label" ? "candidates" : "positions";
    const cells = groups.map(({ word, found }) => [word, counted(found.count), counted(found.total), `${fixed(100 * found.rate, 2)} %`]);
    element(`table-${name}`).replaceChildren(table(title, ["", name === "label" ? "with it" : "candidates", of, "share"], cells));
  }
}

/** @param {string} id @param {any[]} groups @param {string} nothing what is said where there are no groups */
function drawGroups(id, groups, nothing) {
  const { accent } = colours();
  const shown = groups.slice().reverse();
  const trace = {
    type: "bar",
    orientation: "h",
    x: shown.map(({ found }) => 100 * found.rate),
    y: shown.map((_, i) => i),
    marker: { color: accent },
    hovertemplate: "%{x:.2f} %<extra></extra>",
  };
  const axes = {
    xaxis: { title: { text: "%" }, rangemode: "tozero", fixedrange: true },
    yaxis: { tickvals: shown.map((_, i) => i), ticktext: shown.map((each) => plain(each.word)), range: [-0.6, shown.length - 0.4], fixedrange: true },
  };
  Plotly.react(id, [trace], layout({ ...axes, annotations: note(!shown.length, nothing), height: 75 + 26 * Math.max(shown.length, 1) }), PLAIN);
}

/** Words for Plotly, which reads some markup in them. @param {string} word */
function plain(word) {
  return word.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
