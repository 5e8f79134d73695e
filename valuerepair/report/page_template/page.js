// Joins points, board, filters and list. Python has written all moves, so that nothing here knows the rules of chess.
// Texts of games come from anybody: they become text nodes only, never markup.
"use strict";
(async () => {
const $ = (id) => document.getElementById(id);
const FILTERS = ["kind", "phase", "labels", "opening"], AT_ONCE = 12;

function unpacked(id) {
  const bytes = Uint8Array.from(atob($(id).textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, attributes);
  made.append(...children);
  return made;
}

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const data = JSON.parse(await unpacked("data"));
const chart = $("chart");
let shown = [], worst = [];  // those that the filters leave, and the errors among them
let at = 0, step = 0, listed = AT_ONCE;

const q = (value) => (value < 0 ? "-" : "+") + Math.abs(value).toFixed(2);
const isOff = (i, threshold) => Math.abs(data.net[i] - data.deep[i]) >= threshold;
const isWhite = (i) => data.fen[i].split(" ")[1] === "w";

// -- the board

function place(square, white) {  // the middle of a square's place on a board of 8 by 8 squares of 45
  const file = square.charCodeAt(0) - 97, rank = Number(square[1]) - 1;
  return [45 * (white ? file : 7 - file) + 22.5, 45 * (white ? 7 - rank : rank) + 22.5];
}

function arrow(squares, who, white) {
  const [[x1, y1], [x, y]] = [place(squares.slice(0, 2), white), place(squares.slice(2, 4), white)];
  const most = 1 - 12 / Math.hypot(x - x1, y - y1);  // its head takes the rest
  const end = { x2: x1 + most * (x - x1), y2: y1 + most * (y - y1), "marker-end": `url(#head-${who})` };
  return svg("line", { x1, y1, ...end, class: `arrow ${who}` });
}

function board(pieces, white, arrows, lit = "", named = true) {
  const drawn = svg("svg", { viewBox: "0 0 360 360", class: "board", role: "img", "aria-label": `board: ${pieces}` });
  for (const [x, y] of (lit.match(/[a-h][1-8]/g) ?? []).map((square) => place(square, white))) {
    drawn.append(svg("rect", { x: x - 22.5, y: y - 22.5, width: 45, height: 45, class: "lit" }));
  }
  const names = { p: "pawn", n: "knight", b: "bishop", r: "rook", q: "queen", k: "king" };
  pieces.split("/").forEach((rank, down) => {
    const men = rank.replace(/\d/g, (free) => " ".repeat(Number(free)));
    [...men].forEach((man, file) => {
      if (man === " ") return;
      const [x, y] = place("abcdefgh"[file] + (8 - down), white);
      const kind = man.toLowerCase(), href = `#${man === kind ? "black" : "white"}-${names[kind]}`;
      drawn.append(svg("use", { href, transform: `translate(${x - 22.5},${y - 22.5})` }));
    });
  });
  for (const file of named ? "abcdefgh" : "") {
    const rank = "abcdefgh".indexOf(file) + 1, [x, y] = place(file + rank, white);
    drawn.append(svg("text", { x: x + 14, y: 357 }, file), svg("text", { x: 2, y: y - 12 }, String(rank)));
  }
  drawn.append(...arrows);
  return drawn;
}

function arrows(i) {  // one if net and judge play the same
  const [net, judge] = [data.net_move[i], data.deep_move[i]];
  if (net && judge && net[1] === judge[1]) return [["both", net]];
  return [["judge", judge], ["net", net]].filter(([, move]) => move);
}

const drawnArrows = (i) => arrows(i).map(([who, move]) => arrow(move[1], who, isWhite(i)));

// -- one position

function told(i) {
  const plays = (move) => (move ? ` and plays ${move[0]}` : "");
  const verdict = ["the judge is right", "the net is right", "unclear who is right"][data.verdict[i]];
  return `${isWhite(i) ? "White" : "Black"} to move. The net says ${q(data.net[i])}${plays(data.net_move[i])}; `
    + `the judge says ${q(data.deep[i])}${plays(data.deep_move[i])}. `
    + (verdict ? `Second look: ${verdict}.` : "No second look yet.");
}

function score(i) {
  const [mate, cp] = [data.mate[i], data.cp[i]];
  if (mate !== null) return mate > 0 ? `mate in ${mate}` : `mated in ${-mate}`;
  return cp === null ? "" : `${cp < 0 ? "-" : "+"}${Math.abs(cp / 100).toFixed(2)} pawns`;
}

function show(i) {
  [at, step] = [i, 0];
  const rank = worst.indexOf(i);
  const ordinal = rank ? `Number ${rank + 1}` : "The worst";
  $("title").textContent = rank < 0 ? "Judged about right" : `${ordinal} of ${worst.length.toLocaleString("en")} errors`;
  $("told").textContent = told(i);
  $("position").dataset.id = data.id[i];
  $("previous").disabled = rank === 0 || !worst.length;
  $("next").disabled = rank === worst.length - 1;
  $("arrows").replaceChildren(...arrows(i).map(([who, move]) =>
    element("span", { className: who }, `→ ${who === "both" ? "net and judge" : who}: ${move[0]}`)));
  const shares = (wdl) => (wdl.includes(null) ? "" : wdl.join(" / "));
  const looks = [["net", data.net[i], shares(data.net_wdl[i]), data.net_move[i]], ["judge", data.deep[i], shares(data.deep_wdl[i]), data.deep_move[i]]];
  if (data.verdict[i] !== null && data.second[i] !== null) looks.push(["second look", data.second[i], "", data.second_move[i]]);
  $("values").replaceChildren(...looks.map(([who, value, wdl, move]) =>
    element("tr", {}, ...[who, q(value), wdl, move ? move[0] : ""].map((text) => element("td", {}, text)))));
  const marks = looks.slice(0, 2).map(([who, value]) =>
    element("b", { className: who, title: who, style: `left: ${50 + 50 * value}%` }, who === "net" ? "▲" : "▼"));
  $("scale").replaceChildren(element("i", {}, "lost"), element("i", {}, "even"), element("i", {}, "won"), ...marks);
  $("scale").ariaLabel = `net ${q(data.net[i])}, judge ${q(data.deep[i])}, from -1, lost, to +1, won`;
  facts(i);
  drawBoard();
  Plotly.relayout(chart, { "shapes[1].xanchor": data.deep[i], "shapes[1].yanchor": data.net[i] });
  [...$("list").children].forEach((each, rank) => { each.ariaCurrent = String(worst[rank] === i); });
}

function facts(i) {
  const labels = data.words.labels.filter((_, bit) => (data.labels[i] >> bit) & 1);
  const [source, number, white, black, event, date, result] = data.games[data.game[i]];
  const known = (word) => word && !/^[?.]+$/.test(word);
  const prior = data.p[i] === null ? "" : `the net gives it ${(100 * data.p[i]).toFixed(1)} %, its choice number ${data.rank[i]}`;
  const pairs = {
    "judge's score": [score(i), data.nodes[i] ? `${data.nodes[i].toLocaleString("en")} nodes` : ""].filter(Boolean).join(", "),
    "judge's move": prior,
    "in the game": data.played[i] ? `${data.played[i][0]} was played` : "",
    "kind of error": labels.join(", "),
    opening: data.words.opening[data.opening[i]],
    game: known(white) || known(black) ? [`${white || "?"} - ${black || "?"}`, ...[result, event, date].filter(known)].join(", ") : "",
    [`position ${data.id[i]}`]: `${source}, game ${number}, ply ${data.ply[i]}; ${data.words.kind[data.kind[i]]}`,
    FEN: data.fen[i],
  };
  const href = "https://lichess.org/analysis/standard/" + data.fen[i].replaceAll(" ", "_");
  const link = element("a", { href, target: "_blank", rel: "noopener noreferrer" }, "to lichess.org");
  const told = Object.entries(pairs).filter(([, text]) => text).map(([name, text]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, text)));
  told.at(-1).lastChild.append(" ", link);
  $("facts").replaceChildren(...told);
}

function drawBoard() {  // after `step` moves of the judge's line
  const line = data.line[at], [, squares, pieces] = line[step - 1] ?? ["", "", data.fen[at].split(" ")[0]];
  $("board").replaceChildren(board(pieces, isWhite(at), step ? [] : drawnArrows(at), squares));
  $("stepping").hidden = !line.length;
  $("line").replaceChildren(...line.flatMap(([san], i) =>
    [element("button", { type: "button", onclick: () => walk(i + 1), ariaCurrent: String(i + 1 === step) }, san), " "]));
  $("back").disabled = step === 0;
  $("step").disabled = step === line.length;
}

const walk = (to) => { step = to; drawBoard(); };

// -- points, filters, list

function draw() {
  const threshold = limit(), off = new Set(worst);
  const groups = [shown.filter((i) => !off.has(i)), worst.filter((i) => data.net[i] > data.deep[i]), worst.filter((i) => data.net[i] < data.deep[i])];
  const { data: traces, layout } = data.figure, style = getComputedStyle(document.documentElement);
  [traces[1].marker.color, traces[2].marker.color] = ["--optimistic", "--pessimistic"].map((name) => style.getPropertyValue(name));
  groups.forEach((group, k) => {
    Object.assign(traces[k], { x: group.map((i) => data.deep[i]), y: group.map((i) => data.net[i]), customdata: group });
  });
  layout.shapes[0].path = `M-1,${-1 - threshold}L1,${1 - threshold}L1,${1 + threshold}L-1,${-1 + threshold}Z`;
  return Plotly.react(chart, traces, layout, { displayModeBar: false, responsive: true });
}

function limit() {  // an error is off by this much or more
  const value = $("threshold").valueAsNumber;
  return value > 0 ? Math.max(value, data.least) : data.threshold;
}

function filter() {
  const set = FILTERS.map((name) => [name, $(name).value]).filter(([, value]) => value !== "");
  const text = $("text").value.trim().toLowerCase();
  const fits = (i) => set.every(([name, value]) => (name === "labels" ? (data.labels[i] >> value) & 1 : data[name][i] === Number(value)))
    && (!text || [data.fen[i], ...data.games[data.game[i]], data.words.opening[data.opening[i]]].join(" ").toLowerCase().includes(text));
  shown = data.id.map((_, i) => i).filter(fits);  // the worst first
  worst = shown.filter((i) => isOff(i, limit()));
  $("count").textContent = `${shown.length.toLocaleString("en")} positions, ${worst.length.toLocaleString("en")} errors`;
  const changed = [...$("filters").querySelectorAll("input, select")].filter((field) => field.value !== field.dataset.first).length;
  $("set").textContent = changed ? `(${changed} set)` : "";
  $("position").hidden = !shown.length;
  $("none").hidden = !$("position").hidden;
  listed = AT_ONCE;
  list();
  return draw().then(() => shown.length && show(worst[0] ?? shown[0]));
}

function list() {
  const small = (i) => {
    const played = arrows(i).map(([, move]) => move[0]).reverse().join(" / ");
    const said = `${q(data.net[i])} / ${q(data.deep[i])}  ${played}`;
    return element("button", { type: "button", onclick: () => open(i), ariaCurrent: String(i === at) },
      board(data.fen[i].split(" ")[0], isWhite(i), drawnArrows(i), "", false), said);
  };
  $("list").replaceChildren(...worst.slice(0, listed).map(small));
  $("more").hidden = worst.length <= listed;
}

function open(i) {
  show(i);
  $("position").scrollIntoView({ block: "nearest" });
}

function move(by) {
  const next = worst[Math.max(worst.indexOf(at) + by, 0)];  // from a point that is no error to the worst
  if (next !== undefined) show(next);
}

function start() {
  for (const name of FILTERS) {
    $(name).append(element("option", { value: "" }, "all"));
    data.words[name].forEach((word, i) => word && $(name).append(element("option", { value: i }, word)));
  }
  const games = data.words.kind.indexOf("in games");
  if (games > 0) $("kind").options[games].defaultSelected = true;
  $("threshold").min = data.least;
  $("threshold").defaultValue = data.threshold;
  for (const field of $("filters").querySelectorAll("input, select")) field.dataset.first = field.value;
  $("filters").addEventListener("input", filter);
  $("filters").addEventListener("reset", () => setTimeout(filter));
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("more").onclick = () => { listed += 2 * AT_ONCE; list(); };
  $("previous").onclick = () => move(-1);
  $("next").onclick = () => move(1);
  $("back").onclick = () => walk(step - 1);
  $("step").onclick = () => walk(step + 1);
  addEventListener("keydown", (event) => {
    if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowRight") move(1);
    if (event.key === "ArrowLeft") move(-1);
  });
  matchMedia("(prefers-color-scheme: dark)").onchange = draw;
  if (matchMedia("(pointer: coarse)").matches) data.figure.layout.dragmode = false;  // a finger scrolls
  if (!document.createElement("canvas").getContext("webgl")) for (const trace of data.figure.data) trace.type = "scatter";
}

document.body.append(element("script", {}, await unpacked("plotly")));
start();
$("main").hidden = false;
await filter();
chart.on("plotly_click", ({ points: [point] }) => point.customdata !== undefined && open(point.customdata));
$("notice").hidden = true;
document.documentElement.dataset.ready = "";
})();
