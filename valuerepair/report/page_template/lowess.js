// @ts-check
// The lowess line of what the filters leave: Cleveland's robust local linear fit, by weight,
// as valuerepair.report.drawing.lowess_line fits that of all positions.

// Local fits are about this far apart in deep Q, where there are more positions than that; straight lines connect them.
const STEP = 0.02;
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
  if (x[x.length - 1] - x[0] < 0.005) return null;
  const places = placesOf(x);
  const sums = Float64Array.from(mass);
  for (let i = 1; i < sums.length; i++) sums[i] += sums[i - 1];
  const share = Math.min(Math.max(FRACTION, (2 * mostAlike(x, mass)) / sums[sums.length - 1]), 1);
  const wanted = share * sums[sums.length - 1];
  // statsmodels counts rows: of rows that stand for themselves a neighbourhood has a whole number, rounded down.
  const held = mass.every(Number.isInteger) ? Math.floor(wanted + 1e-10) : wanted;
  const spans = Array.from(places, (place) => neighbourhood(x, sums, place, held));
  let fitted = fit(x, y, mass, places, spans);
  const robust = new Float64Array(x.length);
  for (let round = 0; round < ROBUST_ROUNDS; round++) {
    const rest = interpolated(x, places, fitted).map((value, i) => Math.abs(y[i] - value));
    const scale = 6 * medianByWeight(rest, mass);
    if (!(scale > 0)) break;
    for (let i = 0; i < rest.length; i++) robust[i] = mass[i] * Math.max(1 - (rest[i] / scale) ** 2, 0) ** 2;
    const next = fit(x, y, robust, places, spans);
    if (!next.every(Number.isFinite)) break; // a place where all are outliers
    fitted = next;
  }
  return [Array.from(places), Array.from(fitted)];
}

/**
 * Where local fits are made: at the first x, then always at the last one within a step, or else the next one. Between
 * rows that are far apart the line is straight, as in Python.
 */
function placesOf(x) {
  const places = [x[0]];
  for (let i = 1; i < x.length; i++) {
    const last = places[places.length - 1];
    if (x[i] > last && !(i + 1 < x.length && x[i + 1] <= last + STEP)) places.push(x[i]);
  }
  return Float64Array.from(places);
}

/** The value that rows of half of the mass do not exceed. */
function medianByWeight(values, mass) {
  const order = Uint32Array.from(values.keys()).sort((a, b) => values[a] - values[b]);
  let [i, left] = [0, mass.reduce((sum, each) => sum + each) / 2];
  while (i < order.length - 1 && (left -= mass[order[i]]) > 0) i++;
  return values[order[i]];
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

function fit(x, y, mass, places, spans) {
  return places.map((place, i) => {
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

/** The line at ascending x, straight between its places. */
function interpolated(x, places, values) {
  let right = 1;
  return x.map((each) => {
    while (right < places.length - 1 && places[right] < each) right++;
    const share = (each - places[right - 1]) / (places[right] - places[right - 1]);
    return values[right - 1] + share * (values[right] - values[right - 1]);
  });
}
