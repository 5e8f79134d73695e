// @ts-check
// The content of the page: packed in data blocks, unpacked once, read in place.

const ARRAYS = { f8: Float64Array, f4: Float32Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array };

/** The bytes of a data block, unpacked. @param {string} id */
export async function unpack(id) {
  const block = /** @type {HTMLElement} */ (document.getElementById(id));
  const packed = Uint8Array.from(atob(block.textContent ?? ""), (letter) => letter.charCodeAt(0));
  block.remove();
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** The text of a data block. @param {string} id */
export async function unpackText(id) {
  return new TextDecoder().decode(await unpack(id));
}

/** The positions of the page as columns, and the words that go with them. */
export class Points {
  /** @param {any} words @param {ArrayBuffer} numbers */
  constructor(words, numbers) {
    this.words = words.words;
    /** @type {string[]} */
    this.fens = words.fens;
    this.games = words.games;
    this.gameFields = words.layout_of_games;
    this.starts = words.starts;
    /** @type {Record<string, any>} */
    this.columns = {};
    for (const [name, at] of Object.entries(words.layout)) {
      this.columns[name] = new ARRAYS[at.type](numbers, at.offset, at.length);
    }
    this.length = this.columns.net_q.length;
    this.netQ = this.columns.net_q;
    this.deepQ = this.columns.deep_q;
    this.weight = this.columns.weight;
    this.off = Float64Array.from(this.netQ, (q, i) => q - this.deepQ[i]);
    this.size = this.off.map(Math.abs);
  }

  /** As `question.is_candidate` in Python. @param {number} row @param {number} threshold */
  isCandidate(row, threshold) {
    return this.size[row] >= threshold;
  }

  /** The game of a position by field. @param {number} row */
  game(row) {
    const cells = this.games[this.columns.game[row]];
    return Object.fromEntries(this.gameFields.map((name, i) => [name, cells[i]]));
  }

  /** The FEN that a position's history begins at, empty for the usual start. @param {number} row @returns {string} */
  start(row) {
    return this.starts[this.columns.start[row]];
  }

  /** A column of numbers that stand for words. @param {string} name @param {number} row @returns {string} */
  word(name, row) {
    return this.words[name][this.columns[name][row]];
  }

  /** @param {string} name @param {number} row @returns {string[]} UCI moves */
  line(name, row) {
    const from = this.columns[`${name}_from`];
    return Array.from(this.columns[name].subarray(from[row], from[row + 1]), uci);
  }

  /** The `san_flags` of valuerepair.report.page of the moves of the deep search's line. @param {number} row */
  lineFlags(row) {
    return this.columns.pv_san.subarray(this.columns.pv_from[row], this.columns.pv_from[row + 1]);
  }

  /** A single move, empty for none. @param {string} name @param {number} row */
  move(name, row) {
    const move = this.columns[name][row];
    return move ? uci(move) : "";
  }

  /** @param {number} row @returns {string[]} */
  labels(row) {
    return this.words.labels.filter((_, i) => this.columns.labels[row] & (1 << i));
  }
}

/** A move as valuerepair.chess.positions numbers it, in UCI. @param {number} move */
function uci(move) {
  return squareName(move & 63) + squareName((move >> 6) & 63) + ["", "n", "b", "r", "q"][move >> 12];
}

/** @param {number} square 0 is a1, 63 is h8 */
export function squareName(square) {
  return "abcdefgh"[square & 7] + String((square >> 3) + 1);
}
