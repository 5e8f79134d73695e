// @ts-check
// Shares by weight, and numbers as text.

/** Counts rows, and sums their weights. */
export class Share {
  constructor() {
    [this.count, this.total, this.hits, this.mass] = [0, 0, 0, 0];
  }

  /** @param {boolean} hit @param {number} weight */
  add(hit, weight) {
    this.total += 1;
    this.mass += weight;
    if (!hit) return;
    this.count += 1;
    this.hits += weight;
  }

  get rate() {
    return this.hits / this.mass;
  }
}

/** Rounds to this many decimals; a tie goes to the even digit, as in Python. @param {number} number @param {number} digits */
export function fixed(number, digits) {
  const exact = Math.abs(number).toFixed(60); // all digits of a double of this size
  const cut = exact.indexOf(".") + digits + 1;
  const tie = /^50*$/.test(exact.slice(cut)) && Number(exact[cut - 1]) % 2 === 0;
  const size = tie ? exact.slice(0, cut) : Math.abs(number).toFixed(digits);
  return (number < 0 || Object.is(number, -0) ? "-" : "") + size;
}

/** As `vr stats` writes it. @param {{rate: number, low: number, high: number}} value */
export function percent(value) {
  if (Number.isNaN(value.rate)) return "none";
  const [rate, low, high] = [value.rate, value.low, value.high].map((part) => fixed(100 * part, 2));
  return `${rate} % (95 %: ${low} to ${high})`;
}

/** A count with separators. @param {number} number */
export function counted(number) {
  return number.toLocaleString("en-US");
}
