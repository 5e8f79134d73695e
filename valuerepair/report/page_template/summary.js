// @ts-check
// What the store holds, as vr stats says it.
import { element } from "./filters.js";
import { counted, fixed, percent } from "./rates.js";
import { make, table } from "./words.js";

/** A number of seconds as hours, minutes and seconds. @param {number} seconds */
function duration(seconds) {
  const whole = Math.round(seconds);
  const two = (part) => String(part).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** @param {any} words */
export function drawSummary(words) {
  const { stats, lines, sources } = words.figures;
  const { scored } = stats;
  const at = scored.by_threshold.find((row) => row.threshold === scored.threshold);
  const cards = [
    ["Archives", sources.map((each) => `${each.name}: ${counted(each.positions)} positions of ${counted(each.games)} games${each.beside ? `, ${counted(each.beside)} beside them` : ""}`).join("; ")],
    ["Net", `${scored.net.name} (${scored.net.sha256.slice(0, 12)})`],
    ["Deep search", scored.oracle.label],
    ["Deep Q from", scored.source],
    ["Scored", `${counted(scored.positions)} positions${scored.without_q ? `, ${counted(scored.without_q)} of them without a deep Q` : ""}`],
    [`Candidates at ${scored.threshold}`, at ? `${counted(at.candidates)}: ${percent(at)}` : ""],
    ["Mean |difference|", fixed(scored.mean_abs_disagreement, 4)],
    ["Recall", recall(stats)],
    ["Cost", cost(scored)],
    ["Second looks", looks(scored.confirmed)],
  ];
  element("cards").replaceChildren(...cards.filter(([, text]) => text).map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))));
  element("title").textContent = `Where ${scored.net.name} is blind`;
  element("about").textContent = `Its Q against that of ${scored.oracle.label}, from ${stats.store}`;
  document.title = `${scored.net.name}: valuerepair report`;
  sayHeadline(words.figures.headline);
  element("stats").textContent = lines.join("\n");
  const rows = scored.by_threshold.map((row) => [String(row.threshold), counted(row.candidates), percent(row)]);
  element("thresholds").replaceChildren(table("Candidates by threshold", ["|net Q − deep Q| ≥", "candidates", "share"], rows));
  sampled(words.shown);
}

/** The sentence with its figure large and its interval apart. @param {string} sentence */
function sayHeadline(sentence) {
  const parts = /^([\d,.]+|No) (.*?)(?: (\([^()]*\)))?$/.exec(sentence);
  if (!parts) return;
  const [, figure, what, interval = ""] = parts;
  const [large, rest] = element("headline").children;
  large.textContent = figure;
  rest.replaceChildren(`${what} `, make("i", {}, interval));
  element("headline").hidden = false;
}

/** What the searches took: of recorded values often nothing is known. @param {any} scored */
function cost({ nodes, search_seconds: seconds }) {
  if (seconds) return `${counted(nodes)} nodes in ${duration(seconds)} of searching`;
  return nodes ? `${counted(nodes)} nodes` : "";
}

/** @param {any} stats */
function recall({ scored, oracles }) {
  const { screening, oracle } = scored;
  const { kind } = oracles.find((each) => each.digest === oracle.digest);
  if (screening) return screening.words.at(-1).trim().replace(/^recall /, "");
  return kind === "recorded" ? "all values are those recorded in the archives" : "all positions were searched in full";
}

/** @param {any} confirmed */
function looks(confirmed) {
  if (!confirmed?.looked) return "none yet (vr confirm)";
  const right = confirmed.rates["search right"];
  const first = confirmed.looked < confirmed.candidates ? ", the worst first" : "";
  return `${counted(confirmed.looked)} of ${counted(confirmed.candidates)} candidates${first}, by ${confirmed.second.label}: search right ${percent(right)}`;
}

/** @param {any} shown */
function sampled(shown) {
  if (shown.complete) return;
  const parts = shown.strata.map((name, i) => `${counted(shown.shown[i])} of ${counted(shown.of[i])} (${name})`);
  element("sampled").hidden = false;
  element("sampled").textContent =
    `This page shows a sample of the ${counted(shown.of.reduce((sum, count) => sum + count))} positions one by one: ${parts.join(", ")}. ` +
    "In charts and rates each counts for as many as it stands for, so they estimate what all positions would give; the figures of the store below are of all.";
}
