// @ts-check
// Weighted rates with 95 % intervals, as valuerepair.intervals computes them.

const Z = 1.959963984540054;

/** Wilson's score interval. @param {number} p @param {number} total @returns {[number, number]} */
function wilson(p, total) {
  const scale = 1 + (Z * Z) / total;
  const centre = (p + (Z * Z) / (2 * total)) / scale;
  const half = (Z / scale) * Math.sqrt((p * (1 - p)) / total + (Z * Z) / (4 * total * total));
  return [p === 0 ? 0 : centre - half, p === 1 ? 1 : centre + half];
}

/** Sums of rows: those that stand for themselves only (weight 1) and those drawn to stand for more, apart. */
export class Rate {
  constructor() {
    this.strata = [0, 1].map(() => ({ count: 0, total: 0, mass: 0, squares: 0, hitMass: 0 }));
  }

  /** @param {boolean} hit @param {number} weight */
  add(hit, weight) {
    const stratum = this.strata[weight === 1 ? 0 : 1];
    stratum.total += 1;
    stratum.mass += weight;
    stratum.squares += weight * weight;
    if (hit) {
      stratum.count += 1;
      stratum.hitMass += weight;
    }
  }

  get count() {
    return this.strata[0].count + this.strata[1].count;
  }

  get total() {
    return this.strata[0].total + this.strata[1].total;
  }

  /** Each stratum's interval, put together by MOVER (Zou and Donner 2008). NaN where there is nothing. */
  value() {
    const mass = this.strata[0].mass + this.strata[1].mass;
    let [rate, below, above] = [0, 0, 0];
    if (!(mass > 0)) return { rate: NaN, low: NaN, high: NaN };
    for (const stratum of this.strata) {
      if (!(stratum.mass > 0)) continue;
      const share = stratum.mass / mass;
      const all = stratum.count === stratum.total;
      const p = stratum.count === 0 ? 0 : all ? 1 : stratum.hitMass / stratum.mass;
      const [low, high] = wilson(p, (stratum.mass * stratum.mass) / stratum.squares);
      rate += share * p;
      below += (share * (p - low)) ** 2;
      above += (share * (high - p)) ** 2;
    }
    if (this.count === this.total) rate = 1;
    return { rate, low: Math.max(rate - Math.sqrt(below), 0), high: Math.min(rate + Math.sqrt(above), 1) };
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
