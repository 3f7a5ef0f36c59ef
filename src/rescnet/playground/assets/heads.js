/**
 * Stages 7 and 8: heads from sums over features, posteriors, and labels from the residual.
 * @typedef {{weights: Float64Array, bias: Float64Array, present: boolean[]}} Head weights (K, D): a row per group
 */

/**
 * One-vs-rest LDA of each group against all other images; `groups` (n,) are labels, plus C where the sign is negative.
 * @param {Float64Array} features (n, D) @param {Uint8Array} groups @param {number} count groups K
 * @param {number} ridge γ @returns {{head: Head, ridge: number}} the γ used in the end
 */
function fitHead(features, groups, count, ridge) {
  for (let attempt = 0; attempt < 10; attempt++) {
    const head = oneVsRestLda(features, groups, count, ridge);
    if (head) return { head, ridge };
    ridge = Math.max(10 * ridge, 1e-6);
  }
  throw new Error('The heads cannot be solved. Raise the ridge.');
}

/**
 * @param {Float64Array} features @param {Uint8Array} groups @param {number} count @param {number} ridge
 * @returns {Head | null} null if the ridge is too small
 */
function oneVsRestLda(features, groups, count, ridge) {
  const n = groups.length,
    size = features.length / n,
    mean = meanRow(features, size, 0, n);
  const columns = new Float64Array(size * n),
    scale = new Float64Array(size); // centred features, feature by feature
  for (let a = 0; a < size; a++) {
    let square = 0;
    for (let i = 0; i < n; i++) {
      const value = (columns[a * n + i] = features[i * size + a] - mean[a]);
      square += (value * value) / n;
    }
    const floor = 32 * Number.EPSILON * square + (4 * Number.EPSILON * mean[a]) ** 2;
    scale[a] = square > floor ? 1 / Math.sqrt(square) : 0;
    for (let i = 0; i < n; i++) columns[a * n + i] *= scale[a];
  }
  const scatter = new Float64Array(size * size);
  for (let a = 0; a < size; a++) {
    for (let b = 0; b <= a; b++) scatter[a * size + b] = dot(columns, a * n, columns, b * n, n) / n;
    scatter[a * size + a] += ridge + (scale[a] ? 0 : 1);
  }
  if (!cholesky(scatter, size)) return null;
  const head = {
    weights: new Float64Array(count * size),
    bias: new Float64Array(count),
    present: Array(count).fill(false),
  };
  for (let group = 0; group < count; group++) {
    const members = groups.reduce((sum, own) => sum + (own === group ? 1 : 0), 0),
      rest = n - members;
    if (!members) continue;
    head.present[group] = true;
    const share = members / n,
      difference = new Float64Array(size); // m = μ₁ - μ₀ of scaled features
    for (let a = 0; a < size; a++) {
      let sum = 0;
      for (let i = 0; i < n; i++) if (groups[i] === group) sum += columns[a * n + i];
      difference[a] = (sum / n / share) * (n / (rest || 1));
    }
    const solved = choleskySolve(scatter, size, difference.slice());
    const slack = 1 - share * (1 - share) * dot(difference, 0, solved, 0, size);
    if (!(slack > 64 * Number.EPSILON)) return null;
    const weights = solved.map((value, a) => (value / slack) * scale[a]);
    const apart = dot(difference, 0, solved, 0, size) / slack;
    head.weights.set(weights, group * size);
    head.bias[group] = -dot(mean, 0, weights, 0, size) - (0.5 - share) * apart + Math.log(members / (rest || 0.5));
  }
  return head;
}

/** Scores of one image's features, (K,). @param {Head} head @param {Float64Array} features (D,) */
function scoresOf(head, features) {
  const size = features.length;
  return head.bias.map((bias, group) => bias + dot(head.weights, group * size, features, 0, size));
}

/**
 * Posteriors of scores (2C,): those of the positive groups, then those of the negative ones (equations 4 and 12).
 * @param {Float64Array} scores @param {boolean[]} present @param {Config} config
 */
function posteriors(scores, present, config) {
  const classes = scores.length / 2,
    out = new Float64Array(scores.length);
  for (let i = 0; i < scores.length; i++) if (present[i]) out[i] = sigmoid(scores[i] / config.sigmoid_scale);
  if (config.posterior === 'sigmoid') return out;
  for (const first of [0, classes]) {
    const part = out.subarray(first, first + classes);
    if (config.posterior === 'softmax') {
      const here = Array.from(part.keys()).filter((i) => present[first + i]);
      const top = Math.max(...here.map((i) => scores[first + i]));
      here.forEach((i) => {
        part[i] = Math.exp((scores[first + i] - top) * config.softmax_scale);
      });
    }
    const total = part.reduce((a, b) => a + b, 0) || 1;
    part.forEach((value, i) => {
      part[i] = value / total;
    });
  }
  return out;
}

/** Sigmoid that falls like 1/x below -80. @param {number} x */
const sigmoid = (x) =>
  (Math.exp(Math.min(0, Math.max(-80, x))) / (1 + Math.exp(-Math.abs(x)))) * (-80 / Math.min(x, -80));

/**
 * New label and sign of an image: the class of the largest residual (equations 5 to 7).
 * @param {number} label @param {Float64Array} output (C,) @param {number} ceiling λ
 */
function residualTarget(label, output, ceiling) {
  const residual = output.map((value, c) => (c === label ? ceiling : 0) - value);
  let target = 0;
  residual.forEach((value, c) => {
    if (Math.abs(value) > Math.abs(residual[target])) target = c;
  });
  return { residual, target, positive: residual[target] >= 0 };
}
