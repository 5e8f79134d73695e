// @ts-check
// What the reader asks for, and the positions that fit. Filters choose positions; every chart shows the chosen ones.

const CHOICES = ["sign", "phase", "side", "label", "family", "material", "verdict"];

/** @param {string} id @returns {any} */
export function element(id) {
  return document.getElementById(id);
}

/** An option of a select. @param {string} value @param {string} text */
function option(value, text) {
  const made = document.createElement("option");
  made.value = value;
  made.textContent = text;
  return made;
}

/** Whether the page has one column, as style.css has it. */
export const narrow = matchMedia("(max-width: 60rem)");

/** What is marked so is folded where the page has one column, and open, without its title, where it has two. */
export function foldWhereNarrow() {
  const fold = () => document.querySelectorAll("details.fold").forEach((part) => part.toggleAttribute("open", !narrow.matches));
  narrow.addEventListener("change", fold);
  fold();
}

export class Filters {
  /** @param {import("./data.js").Points} points @param {number} threshold @param {() => void} onChange */
  constructor(points, threshold, onChange) {
    this.points = points;
    this.initial = threshold;
    /** @type {string[] | null} */
    this.texts = null;
    this.form = element("filters");
    for (const name of ["phase", "label", "family", "material", "verdict"]) {
      const words = name === "label" ? points.words.labels : points.words[name];
      element(name).append(...words.filter((word) => word).map((word) => option(word, word)));
    }
    element("threshold").value = String(threshold);
    this.sayThreshold();
    this.form.addEventListener("input", () => {
      this.sayThreshold();
      onChange();
    });
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("reset", () =>
      requestAnimationFrame(() => {
        element("threshold").value = String(threshold);
        this.sayThreshold();
        onChange();
      }),
    );
  }

  get threshold() {
    // A threshold finer than the slider's steps is the slider's beginning and stays exact until it is moved.
    const slider = element("threshold");
    return slider.value === this.sliderBeginning() ? this.initial : Number(slider.value);
  }

  sliderBeginning() {
    this.beginning ??= element("threshold").value;
    return this.beginning;
  }

  sayThreshold() {
    element("threshold-value").textContent = String(Math.round(this.threshold * 1e4) / 1e4);
    const set = this.choices().length + (this.threshold === this.initial ? 0 : 1);
    element("filters-set").textContent = set ? ` (${set} set)` : "";
  }

  /** Whether all positions fit. */
  get open() {
    return this.choices().length === 0;
  }

  /** The names of those that are set. */
  choices() {
    return [...CHOICES, "text"].filter((name) => element(name).value.trim() !== "");
  }

  /** The rows that fit, ascending. */
  rows() {
    const { points } = this;
    const tests = CHOICES.map((name) => this.test(name, element(name).value)).filter((test) => test !== null);
    const wanted = element("text").value.trim().toLowerCase();
    if (wanted) {
      const texts = this.searched();
      tests.push((row) => texts[row].includes(wanted));
    }
    const found = new Uint32Array(points.length);
    let count = 0;
    for (let row = 0; row < points.length; row++) {
      if (tests.every((test) => test(row))) found[count++] = row;
    }
    return found.subarray(0, count);
  }

  /** @param {string} name @param {string} value @returns {((row: number) => boolean) | null} */
  test(name, value) {
    const { off, words, columns } = this.points;
    if (value === "") return null;
    if (name === "sign") return value === "optimistic" ? (row) => off[row] > 0 : (row) => off[row] < 0;
    if (name === "label") {
      const bit = 1 << words.labels.indexOf(value);
      return (row) => (columns.labels[row] & bit) !== 0;
    }
    const [column, number] = [columns[name], words[name].indexOf(value)];
    return (row) => column[row] === number;
  }

  /** What the text is looked for in: the game's words, the opening and the FEN, in small letters. */
  searched() {
    if (this.texts) return this.texts;
    const { points } = this;
    const ofGames = points.games.map((cells) => cells.join("\n").toLowerCase());
    this.texts = points.fens.map((fen, i) =>
      [ofGames[points.columns.game[i]], points.word("opening", i).toLowerCase(), fen.toLowerCase()].join("\n"),
    );
    return this.texts;
  }
}
