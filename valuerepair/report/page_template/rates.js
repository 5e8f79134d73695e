// @ts-check
// Weighted rates with 95 % intervals, as valuerepair.intervals computes them.

const Z = 1.959963984540054;
const ROUNDING = 1e-9;

/** Wilson's score interval. @param {number} p @param {number} total @returns {[number, number]} */
function wilson(p, total) {
  const scale = 1 + (Z * Z) / total;
  const centre = (p + (Z * Z) / (2 * total)) / scale;
  const half = (Z / scale) * Math.sqrt((p * (1 - p)) / total + (Z * Z) / (4 * total * total));
  return [p === 0 ? 0 : centre - half, p === 1 ? 1 : centre + half];
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
   * Each stratum's interval for its effective number of rows, put together by MOVER (Zou and Donner 2008), with what
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
      let effective = (size * size) / ofGames[i][2];
      if (own[i] !== 0 && own[i] !== 1 && effective >= 1 + ROUNDING) {
        effective = (size * size) / ofRows[2] / Math.max(about(ofGames[i], own[i]) / about(ofRows, own[i]), 1);
      }
      const [low, high] = wilson(own[i], effective);
      below += ((size / mass) * (own[i] - low)) ** 2;
      above += ((size / mass) * (high - own[i])) ** 2;
    }
    const more = (Z * Z * Math.max(between, 0)) / (mass * mass);
    const [down, up] = [Math.sqrt(below + more), Math.sqrt(above + more)];
    return { rate, low: Math.max(rate - down, 0), high: Math.min(rate + up, 1) };
  }
}

/** With so many decimals; a tie goes to the even digit, as Python rounds. @param {number} number @param {number} digits */
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
