// @ts-check
// Weighted rates with 95 % intervals, as valuerepair.intervals computes them.

const Z = 1.959963984540054;
const ROUNDING = 1e-9;
const ALIKE = 0.1; // what positions of one game are taken to correlate by where too few candidates tell

/** Wilson's score interval. @param {number} p @param {number} total @returns {[number, number]} */
function wilson(p, total) {
  const scale = 1 + (Z * Z) / total;
  const centre = (p + (Z * Z) / (2 * total)) / scale;
  const half = (Z / scale) * Math.sqrt((p * (1 - p)) / total + (Z * Z) / (4 * total * total));
  return [p === 0 ? 0 : centre - half, p === 1 ? 1 : centre + half];
}

const LANCZOS = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
];

/** The logarithm of the gamma function, by C. Lanczos (1964). @param {number} x */
function logGamma(x) {
  const t = x + 6.5;
  const sum = LANCZOS.reduce((total, term, i) => total + (i ? term / (x - 1 + i) : term), 0);
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum);
}

/** The regularised incomplete beta function by its continued fraction (Abramowitz and Stegun, 26.5.8).
 * @param {number} x @param {number} a @param {number} b @returns {number} */
function beta(x, a, b) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - beta(1 - x, b, a);
  const front = logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x);
  let [c, d] = [1, 1 / (1 - ((a + b) * x) / (a + 1))];
  let fraction = d;
  for (let m = 1; m < 100000; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    let change = 1;
    for (const term of [even, odd]) {
      [c, d] = [1 + term / c, 1 / (1 + term * d)];
      change *= c * d;
    }
    fraction *= change;
    if (Math.abs(change - 1) < 1e-15) break;
  }
  return (Math.exp(front) * fraction) / a;
}

/** Where the beta distribution reaches `share`, by bisection. @param {number} share @param {number} a @param {number} b */
function betaQuantile(share, a, b) {
  let [low, high] = [0, 1];
  for (let i = 0; i < 60; i += 1) {
    const middle = (low + high) / 2;
    if (beta(middle, a, b) < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** Korn and Graubard's interval. @param {number} p @param {number} effective @param {number} groups
 * @returns {[number, number]} */
function kornGraubard(p, effective, groups) {
  const x = betaQuantile(0.05, (groups - 1) / 2, 0.5); // (groups - 1) / (groups - 1 + t²), t with 97.5 %
  const n = (effective * Z * Z * x) / ((groups - 1) * (1 - x));
  if (!(n > 0)) return [0, 1];
  const low = p === 0 ? 0 : betaQuantile(0.025, p * n, (1 - p) * n + 1);
  const high = p === 1 ? 1 : betaQuantile(0.975, p * n + 1, (1 - p) * n);
  return [Math.min(low, p), Math.max(high, p)];
}

/** Sums of the products of the mass of hits and of all, of rows or games: `squares` of what is not expected of `rate`.
 * @param {number[]} squares @param {number} rate */
function about([hits, both, all], rate) {
  return hits - 2 * rate * both + rate * rate * all;
}

/** @param {number[]} squares @param {number} hits @param {number} all @param {number} otherHits @param {number} otherAll */
function addSquares(squares, hits, all, otherHits, otherAll) {
  squares[0] += hits * otherHits;
  squares[1] += (hits * otherAll + all * otherHits) / 2;
  squares[2] += all * otherAll;
}

/** The interval of one stratum; see `_Stratum.bounds` of valuerepair.intervals.
 * @param {{count: number, total: number, mass: number, ofRows: number[]}} stratum @param {number[]} ofGames
 * @param {number} rate @returns {[number, number]} */
function bounds(stratum, ofGames, rate) {
  const rows = stratum.mass ** 2 / stratum.ofRows[2];
  const games = stratum.mass ** 2 / ofGames[2];
  if (games > rows * (1 - ROUNDING)) return wilson(rate, rows);
  if (games < 1 + ROUNDING) return [0, 1];
  const seen = Math.min(stratum.count, stratum.total - stratum.count);
  const varied = rate > 0 && rate < 1 ? about(ofGames, rate) / about(stratum.ofRows, rate) : 0;
  const expected = 1 + (rows / games - 1) * ALIKE;
  const effect = Math.max(((seen * varied * games) / (games - 1) + expected) / (seen + 1), 1);
  return kornGraubard(rate, rows / effect, games);
}

/** Sums of rows: those that stand for themselves only (weight 1) and those drawn to stand for more, apart. */
export class Rate {
  constructor() {
    this.strata = [0, 1].map(() => ({ count: 0, total: 0, mass: 0, hitMass: 0, ofRows: [0, 0, 0] }));
    /** The mass of hits and of all of each game, in either stratum. @type {Map<number, number[]>} */
    this.games = new Map();
  }

  /** @param {boolean} hit @param {number} weight @param {number} game */
  add(hit, weight, game) {
    const which = weight === 1 ? 0 : 1;
    const stratum = this.strata[which];
    const hitMass = hit ? weight : 0;
    stratum.total += 1;
    stratum.count += hit ? 1 : 0;
    stratum.mass += weight;
    stratum.hitMass += hitMass;
    addSquares(stratum.ofRows, hitMass, weight, hitMass, weight);
    let sums = this.games.get(game);
    if (!sums) this.games.set(game, (sums = [0, 0, 0, 0]));
    sums[2 * which] += hitMass;
    sums[2 * which + 1] += weight;
  }

  get count() {
    return this.strata[0].count + this.strata[1].count;
  }

  get total() {
    return this.strata[0].total + this.strata[1].total;
  }

  /**
   * The intervals of both strata, put together by MOVER (Zou and Donner 2008), with what
   * games have more in one than in the other. NaN where there is nothing.
   */
  value() {
    const mass = this.strata[0].mass + this.strata[1].mass;
    if (!(mass > 0)) return { rate: NaN, low: NaN, high: NaN };
    const [ofGames, across] = [[[0, 0, 0], [0, 0, 0]], [0, 0, 0]];
    for (const [hits, all, otherHits, otherAll] of this.games.values()) {
      addSquares(ofGames[0], hits, all, hits, all);
      addSquares(ofGames[1], otherHits, otherAll, otherHits, otherAll);
      addSquares(across, hits, all, otherHits, otherAll);
    }
    const own = this.strata.map((stratum) => {
      const rate = stratum.hitMass / stratum.mass;
      return Math.min(rate, 1 - rate) < ROUNDING ? Math.round(rate) : rate;
    });
    const present = [0, 1].filter((i) => this.strata[i].mass > 0);
    let rate = present.reduce((sum, i) => sum + (this.strata[i].mass / mass) * own[i], 0);
    if (this.count === this.total) rate = 1;
    let between = present.length < 2 ? 0 : 2 * about(across, rate);
    let [below, above] = [0, 0];
    for (const i of present) {
      const { mass: size, ofRows } = this.strata[i];
      if (present.length > 1) {
        between += about(ofGames[i], rate) - about(ofGames[i], own[i]) - about(ofRows, rate) + about(ofRows, own[i]);
      }
      const [low, high] = bounds(this.strata[i], ofGames[i], own[i]);
      below += ((size / mass) * (own[i] - low)) ** 2;
      above += ((size / mass) * (high - own[i])) ** 2;
    }
    const more = (Z * Z * Math.max(between, 0)) / (mass * mass);
    const [down, up] = [Math.sqrt(below + more), Math.sqrt(above + more)];
    return { rate, low: Math.max(rate - down, 0), high: Math.min(rate + up, 1) };
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
