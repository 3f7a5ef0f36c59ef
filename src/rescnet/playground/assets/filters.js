/**
 * Stage 3: filters from patches (section 2.3.1 and appendix A of the paper).
 * @typedef {{weights: Float64Array, bias: Float64Array}} Filters (count, M) and (count,)
 */
const MOST_DRAWS = 100000;

/**
 * Leading eigenvectors of the patch covariance; the largest number of each is positive.
 * @param {{mean: Float64Array, covariance: Float64Array}} moments @param {number} count @returns {Filters}
 */
function pcaFilters(moments, count) {
  const size = moments.mean.length,
    weights = eigenvectors(moments.covariance, size).vectors.slice(0, count * size);
  const bias = new Float64Array(count);
  for (let f = 0; f < count; f++) {
    const filter = weights.subarray(f * size, (f + 1) * size);
    const largest = filter.reduce((best, value) => (Math.abs(value) > Math.abs(best) ? value : best), 0);
    if (largest < 0)
      filter.forEach((value, i) => {
        filter[i] = -value;
      });
    bias[f] = -dot(filter, 0, moments.mean, 0, size);
  }
  return { weights, bias };
}

/**
 * Discriminants between two patches of one class and 32 of others, in the order drawn, that make no error.
 * @param {Batch} x @param {Uint8Array} labels @param {number} k @param {Float64Array} mean of the patches
 * @param {number} count @param {TorchRandom} random @param {Config} config @returns {Filters}
 */
function stackedLdaFilters(x, labels, k, mean, count, random, config) {
  const size = mean.length,
    samples = config.positives + config.negatives;
  const weights = new Float64Array(count * size),
    bias = new Float64Array(count),
    patches = new Float64Array(samples * size);
  let found = 0,
    drawn = 0,
    batch = Math.min(4096, Math.max(32, Math.ceil(1.5 * count)));
  while (found < count) {
    if (drawn >= MOST_DRAWS) {
      throw new Error(
        `Only ${found} of ${count} stacked-LDA filters separate their patches. Draw more different examples.`,
      );
    }
    const draws = drawPatches(labels, x.h - k + 1, x.w - k + 1, Math.min(batch, MOST_DRAWS - drawn), random, config);
    for (let draw = 0; draw < draws.count && found < count; draw++) {
      for (let i = 0; i < samples; i++)
        copyPatch(x, k, draws, draw * samples + i, patches.subarray(i * size, (i + 1) * size));
      const filter = discriminate(patches, size, config);
      if (!filter) continue;
      const norm = Math.sqrt(dot(filter, 0, filter, 0, size));
      for (let i = 0; i < size; i++) weights[found * size + i] = filter[i] * (norm > 0 ? 1 / norm : 0);
      bias[found] = -dot(weights, found * size, mean, 0, size);
      found++;
    }
    drawn += draws.count;
    batch = Math.min(4096, 2 * batch);
  }
  return { weights, bias };
}

/**
 * Places of the patches of many draws, positives first; the order of the random numbers is that of the library.
 * @param {Uint8Array} labels @param {number} rows @param {number} columns @param {number} count
 * @param {TorchRandom} random @param {Config} config
 */
function drawPatches(labels, rows, columns, count, random, config) {
  const order = Array.from(labels.keys()).sort((a, b) => labels[a] - labels[b] || a - b);
  const sizes = new Array(Math.max(...labels) + 1).fill(0);
  labels.forEach((label) => sizes[label]++);
  const starts = sizes.map((_, label) => sizes.slice(0, label).reduce((a, b) => a + b, 0));
  const classes = sizes.flatMap((size, label) => (size ? [label] : []));
  const chosen = random.integers(classes.length, count);
  const positive = random.uniform(count * config.positives),
    negative = random.uniform(count * config.negatives);
  const samples = config.positives + config.negatives,
    image = new Uint32Array(count * samples);
  for (let draw = 0, to = 0; draw < count; draw++) {
    const label = classes[chosen[draw]],
      size = sizes[label],
      start = starts[label],
      others = labels.length - size;
    for (let i = 0; i < config.positives; i++) {
      image[to++] = order[start + Math.min(Math.floor(positive[draw * config.positives + i] * size), size - 1)];
    }
    for (let i = 0; i < config.negatives; i++) {
      const place = Math.min(Math.floor(negative[draw * config.negatives + i] * others), others - 1);
      image[to++] = order[place < start ? place : place + size];
    }
  }
  return { count, image, row: random.integers(rows, image.length), column: random.integers(columns, image.length) };
}

/**
 * Copy a drawn patch.
 * @param {Batch} x @param {number} k @param {{image: Uint32Array, row: Uint32Array, column: Uint32Array}} draws
 * @param {number} sample @param {Float64Array} out (c·k·k,)
 */
function copyPatch(x, k, draws, sample, out) {
  const { h, w } = x,
    first = draws.image[sample] * x.c,
    y = draws.row[sample],
    z = draws.column[sample];
  let to = 0;
  for (let c = 0; c < x.c; c++) {
    for (let dy = 0; dy < k; dy++)
      for (let dx = 0; dx < k; dx++) out[to++] = x.data[((first + c) * h + y + dy) * w + z + dx];
  }
}

/**
 * LDA weights (M,) between the first patches and the rest; null if a patch is on the wrong side.
 * @param {Float64Array} patches (positives + negatives, M) @param {number} size M @param {Config} config
 */
function discriminate(patches, size, config) {
  const { positives, negatives } = config,
    n = positives + negatives;
  const ahead = meanRow(patches, size, 0, positives),
    behind = meanRow(patches, size, positives, n);
  const centred = patches.map((value, i) => value - (i < positives * size ? ahead : behind)[i % size]);
  const difference = ahead.map((value, i) => value - behind[i]);
  const variance = dot(centred, 0, centred, 0, centred.length) / centred.length;
  const gamma = Math.max(Math.max(config.draw_ridge, 1e-12) * variance, Math.sqrt(2.2250738585072014e-308));
  const weights = withinSolve(centred, n, size, difference, gamma);
  if (!weights) return null;
  const midpoint = ahead.map((value, i) => (value + behind[i]) / 2);
  const bias = Math.log(positives / negatives) - dot(weights, 0, midpoint, 0, size);
  let wrong = 0;
  for (let i = 0; i < n; i++) {
    const score = dot(patches, i * size, weights, 0, size) + bias;
    if (i < positives ? !(score > 0) : !(score <= 0)) wrong++;
  }
  return wrong / n <= config.tolerance ? weights : null;
}

/** @param {Float64Array} rows @param {number} size @param {number} first @param {number} last */
function meanRow(rows, size, first, last) {
  const mean = new Float64Array(size);
  for (let i = first; i < last; i++) for (let j = 0; j < size; j++) mean[j] += rows[i * size + j] / (last - first);
  return mean;
}

/**
 * (ZᵀZ/n + γI)⁻¹ m of rows Z (n, M), in the smaller of both dimensions; null if it is singular.
 * @param {Float64Array} z @param {number} n @param {number} size @param {Float64Array} m @param {number} gamma
 */
function withinSolve(z, n, size, m, gamma) {
  if (size <= n) {
    const scatter = new Float64Array(size * size);
    for (let i = 0; i < n; i++) {
      for (let a = 0; a < size; a++) {
        const value = z[i * size + a] / n;
        for (let b = 0; b <= a; b++) scatter[a * size + b] += value * z[i * size + b];
      }
    }
    for (let a = 0; a < size; a++) scatter[a * size + a] += gamma;
    return cholesky(scatter, size) ? choleskySolve(scatter, size, m.slice()) : null;
  }
  const inner = new Float64Array(n * n),
    right = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) inner[i * n + j] = dot(z, i * size, z, j * size, size);
    inner[i * n + i] += n * gamma;
    right[i] = dot(z, i * size, m, 0, size);
  }
  if (!cholesky(inner, n)) return null;
  choleskySolve(inner, n, right);
  const out = m.slice();
  for (let i = 0; i < n; i++) for (let a = 0; a < size; a++) out[a] -= right[i] * z[i * size + a];
  return out.map((value) => value / gamma);
}
