// @ts-check
// Making elements. Text is always set as text: what archives say never becomes markup.
import { parseFen, san } from "./board.js";
import { fixed } from "./rates.js";

/**
 * An element with properties and children; strings among the children are text.
 * @param {string} tag @param {Record<string, any>} properties @param {...(Node | string)} children @returns {any}
 */
export function make(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("aria-") || name === "role") made.setAttribute(name, String(value));
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

/** A Q with its sign. @param {number} q */
export function signed(q) {
  return Number.isNaN(q) ? "?" : (q < 0 ? "−" : "+") + fixed(Math.abs(q), 3);
}

/** A table with a caption and heads. @param {string} caption @param {string[]} heads @param {string[][]} rows */
export function table(caption, heads, rows) {
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)));
  const body = rows.map(([first, ...rest]) =>
    make("tr", {}, make("th", { scope: "row" }, first), ...rest.map((text) => make("td", {}, text))),
  );
  return make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body));
}

/** A position in one line. @param {any} points @param {number} row */
export function describe(points, row) {
  const side = points.word("side", row) === "w" ? "White" : "Black";
  const opening = points.word("opening", row) || points.word("family", row) || "unknown opening";
  return `${opening}, ${side} to move, ${points.word("phase", row)}`;
}

/** Best move and Q of net and search. @param {any} points @param {number} row @returns {[string, string]} */
export function opinions(points, row) {
  const position = parseFen(points.fens[row]);
  const said = (who, column, q) => {
    const move = points.move(column, row);
    return [who, move && san(position, move, points.columns[`${column}_san`][row]), q].filter((word) => word).join(" ");
  };
  return [said("net", "net_best", signed(points.netQ[row])), said("deep", "deep_best", signed(points.deepQ[row]))];
}

/** A position's moves and numbers in one line. @param {any} points @param {number} row */
export function values(points, row) {
  return [...opinions(points, row), `difference ${signed(points.off[row])}`].join(", ");
}
