// @ts-check
// The lowess line of what the filters leave: Cleveland's robust local linear fit, by weight,
// as valuerepair.report.lowess fits that of all positions.

const PLACES = 101;
const FRACTION = 0.3;
const LEAST = 20;
const ROBUST_ROUNDS = 3;

/** Net Q over deep Q of the rows; null where there are too few. @param {any} points @param {Uint32Array} rows */
export function lowess(points, rows) {
  const usable = rows.filter((row) => points.weight[row] > 0);
  if (usable.length < LEAST) return null;
  const order = Float64Array.from(usable).sort((a, b) => points.deepQ[a] - points.deepQ[b]);
  const x = Float64Array.from(order, (row) => points.deepQ[row]);
  const y = Float64Array.from(order, (row) => points.judgedQ[row]);
  const mass = Float64Array.from(order, (row) => points.weight[row]);
  const [first, last] = [x[0], x[x.length - 1]];
  if (last - first < 0.005) return null;
  const grid = Float64Array.from({ length: PLACES }, (_, i) => first + ((last - first) * i) / (PLACES - 1));
  const sums = Float64Array.from(mass);
  for (let i = 1; i < sums.length; i++) sums[i] += sums[i - 1];
  const share = Math.min(Math.max(FRACTION, (2 * mostAlike(x, mass)) / sums[sums.length - 1]), 1);
  const spans = Array.from(grid, (place) => neighbourhood(x, sums, place, share * sums[sums.length - 1]));
  let fitted = fit(x, y, mass, grid, spans);
  const robust = new Float64Array(x.length);
  for (let round = 0; round < ROBUST_ROUNDS; round++) {
    const rest = y.map((value, i) => Math.abs(value - at(grid, fitted, x[i])));
    const scale = 6 * Float64Array.from(rest).sort()[rest.length >> 1];
    if (!(scale > 0)) break;
    for (let i = 0; i < rest.length; i++) robust[i] = mass[i] * Math.max(1 - (rest[i] / scale) ** 2, 0) ** 2;
    fitted = fit(x, y, robust, grid, spans);
  }
  return [Array.from(grid), Array.from(fitted)];
}

/** The greatest mass at one x: where many scores are alike, a neighbourhood must hold more than those. */
function mostAlike(x, mass) {
  let [most, here] = [0, 0];
  for (let i = 0; i < x.length; i++) {
    here = i && x[i] === x[i - 1] ? here + mass[i] : mass[i];
    most = Math.max(most, here);
  }
  return most;
}

/** First and last of the nearest points that together have the wanted mass, and the distance of the farther. */
function neighbourhood(x, sums, place, wanted) {
  let low = 0;
  for (let high = x.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (x[middle] < place) low = middle + 1;
    else high = middle;
  }
  let [from, to, held] = [low, low, 0];
  while (held < wanted && (from > 0 || to < x.length)) {
    if (to >= x.length || (from > 0 && place - x[from - 1] <= x[to] - place)) from -= 1;
    else to += 1;
    held = sums[to - 1] - (from ? sums[from - 1] : 0);
  }
  return { from, to, reach: Math.max(place - x[from], x[to - 1] - place, 1e-9) };
}

function fit(x, y, mass, grid, spans) {
  return grid.map((place, i) => {
    const { from, to, reach } = spans[i];
    let [w, wx, wy, wxx, wxy] = [0, 0, 0, 0, 0];
    for (let k = from; k < to; k++) {
      const d = Math.abs(x[k] - place) / reach;
      const tricube = d < 1 ? (1 - d * d * d) ** 3 * mass[k] : 0;
      const dx = x[k] - place;
      w += tricube;
      wx += tricube * dx;
      wy += tricube * y[k];
      wxx += tricube * dx * dx;
      wxy += tricube * dx * y[k];
    }
    const spread = w * wxx - wx * wx;
    return spread > 1e-12 * w * w ? (wy * wxx - wx * wxy) / spread : wy / w;
  });
}

/** The line at x, between the places of the grid. */
function at(grid, values, x) {
  const step = (grid[grid.length - 1] - grid[0]) / (grid.length - 1);
  const place = Math.min(Math.max((x - grid[0]) / step, 0), grid.length - 1);
  const left = Math.min(Math.floor(place), grid.length - 2);
  return values[left] + (place - left) * (values[left + 1] - values[left]);
}
