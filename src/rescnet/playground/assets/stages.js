/**
 * The stages of a layer, in the paper's order: the same arithmetic as rescnet.stages, in the same order of numbers.
 * @typedef {{n: number, c: number, h: number, w: number, data: Float64Array}} Batch images or maps, (n, c, h, w)
 * @typedef {{low: Float64Array, high: Float64Array}} ValueRange of each channel
 * @typedef {{top: number, bottom: number, left: number, right: number}} Cell of the pyramid, in blocks
 * @typedef {{size: number, stride: number, rows: number, columns: number, levels: {down: number, across: number}[],
 *   cells: Cell[]}} Grid of blocks; the cells of the first level are followed by those of the next
 */

/** @param {number} n @param {number} c @param {number} h @param {number} w @returns {Batch} */
const emptyBatch = (n, c, h, w) => ({ n, c, h, w, data: new Float64Array(n * c * h * w) });

/**
 * Stage 1: scale each channel's range to [0, 1]; a constant channel becomes zero.
 * @param {Batch} x @param {ValueRange} range @returns {Batch}
 */
function minMaxScale(x, range) {
  const out = emptyBatch(x.n, x.c, x.h, x.w),
    size = x.h * x.w;
  for (let image = 0, i = 0; image < x.n; image++) {
    for (let c = 0; c < x.c; c++) {
      const low = range.low[c],
        span = range.high[c] - low,
        factor = span > 2.3e-308 ? 1 / span : 0;
      for (let end = i + size; i < end; i++) out.data[i] = (x.data[i] - low) * factor;
    }
  }
  return out;
}

/** Stage 1: [maps ; image] along the channels. @param {Batch} maps @param {Batch} images @returns {Batch} */
function concatenate(maps, images) {
  const out = emptyBatch(maps.n, maps.c + images.c, maps.h, maps.w),
    size = maps.h * maps.w;
  for (let image = 0; image < maps.n; image++) {
    const start = image * out.c * size;
    out.data.set(maps.data.subarray(image * maps.c * size, (image + 1) * maps.c * size), start);
    out.data.set(images.data.subarray(image * images.c * size, (image + 1) * images.c * size), start + maps.c * size);
  }
  return out;
}

/** Smallest and largest value of each channel. @param {Batch} x @returns {ValueRange} */
function rangeOf(x) {
  const low = new Float64Array(x.c).fill(Infinity),
    high = new Float64Array(x.c).fill(-Infinity),
    size = x.h * x.w;
  for (let i = 0; i < x.data.length; i++) {
    const c = Math.floor(i / size) % x.c;
    if (x.data[i] < low[c]) low[c] = x.data[i];
    if (x.data[i] > high[c]) high[c] = x.data[i];
  }
  return { low, high };
}

/** One range for all channels. @param {ValueRange} range @returns {ValueRange} */
function sharedRange(range) {
  const low = Math.min(...range.low),
    high = Math.max(...range.high);
  return { low: range.low.map(() => low), high: range.high.map(() => high) };
}

/**
 * Stage 2: mean and covariance of all k×k patches (c·k·k numbers each).
 *
 * The products of two pixels are summed over the images first, one sum per pair of pixels, and then over the places of
 * the patches: a pair of pixels is in several patches, but is multiplied once.
 * @param {Batch} x @param {number} k
 */
function patchMoments(x, k) {
  const { n, h, w } = x,
    pixels = h * w,
    rows = h - k + 1,
    columns = w - k + 1,
    size = x.c * k * k;
  const byPixel = new Float64Array(x.data.length),
    sums = new Float64Array(x.c * pixels);
  for (let i = 0; i < n; i++) {
    for (let p = 0; p < sums.length; p++) sums[p] += byPixel[p * n + i] = x.data[i * sums.length + p];
  }
  const count = n * rows * columns,
    mean = new Float64Array(size),
    covariance = new Float64Array(size * size);
  /**
   * Sum over all places of a patch, of its pixel (dy, dx).
   * @param {Float64Array} plane @param {number} dy @param {number} dx
   */
  const overPlaces = (plane, dy, dx) => {
    let total = 0;
    for (let y = dy; y < dy + rows; y++) for (let z = dx; z < dx + columns; z++) total += plane[y * w + z];
    return total;
  };
  for (let a = 0; a < size; a++) {
    const first = Math.floor(a / (k * k)) * pixels;
    mean[a] = overPlaces(sums.subarray(first, first + pixels), Math.floor(a / k) % k, a % k) / count;
  }
  const products = new Float64Array(pixels);
  for (let c = 0; c < x.c; c++) {
    for (let other = 0; other <= c; other++) {
      for (let down = 1 - k; down < k; down++) {
        for (let right = 1 - k; right < k; right++) {
          // from a pixel of channel c to its partner in the other channel
          for (let y = Math.max(0, -down); y < Math.min(h, h - down); y++) {
            for (let z = Math.max(0, -right); z < Math.min(w, w - right); z++) {
              const at = c * pixels + y * w + z,
                partner = other * pixels + (y + down) * w + z + right;
              products[y * w + z] = dot(byPixel, at * n, byPixel, partner * n, n);
            }
          }
          for (let dy = Math.max(0, -down); dy < Math.min(k, k - down); dy++) {
            for (let dx = Math.max(0, -right); dx < Math.min(k, k - right); dx++) {
              const a = (c * k + dy) * k + dx,
                b = (other * k + dy + down) * k + dx + right;
              const value = overPlaces(products, dy, dx) / count - mean[a] * mean[b];
              covariance[a * size + b] = covariance[b * size + a] = value;
            }
          }
        }
      }
    }
  }
  return { mean, covariance };
}

/**
 * Stage 4: cross-correlation with d filters (d, c, k, k), padded with zeros to the same size.
 * @param {Batch} x @param {Float64Array} weights @param {Float64Array} bias @param {number} k @returns {Batch}
 */
function convolve(x, weights, bias, k) {
  const d = bias.length,
    { h, w } = x,
    pixels = h * w,
    size = x.c * k * k,
    before = Math.floor((k - 1) / 2);
  const out = emptyBatch(x.n, d, h, w),
    patches = new Float64Array(pixels * size); // zero outside of the image
  for (let image = 0; image < x.n; image++) {
    for (let a = 0; a < size; a++) {
      const from = (image * x.c + Math.floor(a / (k * k))) * pixels;
      const down = (Math.floor(a / k) % k) - before,
        right = (a % k) - before;
      for (let y = Math.max(0, -down); y < Math.min(h, h - down); y++) {
        const source = from + (y + down) * w + right;
        for (let z = Math.max(0, -right); z < Math.min(w, w - right); z++)
          patches[(y * w + z) * size + a] = x.data[source + z];
      }
    }
    for (let f = 0, to = image * d * pixels; f < d; f++) {
      for (let p = 0; p < pixels; p++) out.data[to++] = bias[f] + dot(weights, f * size, patches, p * size, size);
    }
  }
  return out;
}

/**
 * The blocks of each size and the cells of their pyramid on maps (h, w).
 * @param {Config} config @param {number} h @param {number} w @returns {Grid[]}
 */
function makeGrids(config, h, w) {
  const stride = config.block_stride;
  return config.block_sizes.map((size) => {
    const rows = Math.floor((h - size) / stride) + 1,
      columns = Math.floor((w - size) / stride) + 1;
    /** @param {number} level @param {number} blocks @param {number} side @returns {number[][]} */
    const bins = (level, blocks, side) => {
      if (config.pyramid_bins === 'adaptive') {
        return Array.from({ length: level }, (_, i) => [
          Math.floor((i * blocks) / level),
          Math.ceil(((i + 1) * blocks) / level),
        ]);
      }
      const cellOf = Array.from({ length: blocks }, (_, i) =>
        Math.ceil(((Math.ceil(size / 2) + stride * i) * level) / side),
      );
      return [...new Set(cellOf)]
        .sort((a, b) => a - b)
        .map((cell) => [cellOf.indexOf(cell), cellOf.lastIndexOf(cell) + 1]);
    };
    const levels = config.pyramid.map((level) => ({ down: bins(level, rows, h), across: bins(level, columns, w) }));
    const cells = levels.flatMap(({ down, across }) =>
      down.flatMap(([top, bottom]) => across.map(([left, right]) => ({ top, bottom, left, right }))),
    );
    const sizes = levels.map(({ down, across }) => ({ down: down.length, across: across.length }));
    return { size, stride, rows, columns, levels: sizes, cells };
  });
}

/** Pairs of d channels: the upper triangle, row by row. @param {number} d @param {boolean} diagonal */
const countPairs = (d, diagonal) => (diagonal ? (d * (d + 1)) / 2 : (d * (d - 1)) / 2);

/**
 * Stages 4 and 5 of one image: correlations of the rectified maps in each block, (rows·columns, pairs).
 * @param {Batch} maps @param {number} image @param {Grid} grid @param {Config} config
 */
function blockCorrelations(maps, image, grid, config) {
  const size = maps.h * maps.w,
    both = config.rectifier === 'both',
    d = both ? 2 * maps.c : maps.c;
  const x = new Float64Array(d * size),
    centre = new Float64Array(d),
    power = new Float64Array(d);
  for (let c = 0; c < d; c++) {
    const from = (image * maps.c + (c % maps.c)) * size,
      sign = c < maps.c ? 1 : -1;
    for (let i = 0; i < size; i++) centre[c] += x[c * size + i] = Math.max(0, sign * maps.data[from + i]);
    centre[c] /= size;
    for (let i = 0; i < size; i++) {
      const shifted = (x[c * size + i] -= centre[c]);
      power[c] += (shifted * shifted) / size;
    }
  }
  const area = grid.size * grid.size,
    diagonal = config.matrix_log,
    pairs = countPairs(d, diagonal);
  const z = new Float64Array(d * area),
    found = new Float64Array(grid.rows * grid.columns * pairs);
  let to = 0;
  for (let row = 0; row < grid.rows; row++) {
    for (let column = 0; column < grid.columns; column++) {
      for (let c = 0; c < d; c++) {
        let sum = 0,
          square = 0,
          at = c * area;
        for (let y = 0; y < grid.size; y++) {
          const from = c * size + (row * grid.stride + y) * maps.w + column * grid.stride;
          for (let i = 0; i < grid.size; i++) {
            const value = (z[at++] = x[from + i]);
            sum += value;
            square += value * value;
          }
        }
        const mean = sum / area,
          variance = square / area - mean * mean;
        const rounding = Math.max(32 * Number.EPSILON * (square / area), (16 * Number.EPSILON * centre[c]) ** 2);
        const floor = Math.max(rounding, power[c] * 1e-4);
        const scale = variance > floor ? 1 / Math.sqrt(variance * area) : 0;
        for (let i = c * area; i < at; i++) z[i] = (z[i] - mean) * scale;
      }
      for (let a = 0; a < d; a++) {
        for (let b = diagonal ? a : a + 1; b < d; b++) found[to++] = dot(z, a * area, z, b * area, area);
      }
    }
  }
  return found;
}

/**
 * Stage 6: reduce the correlations of each cell's blocks; into `out` from `at`.
 * @param {Float64Array} blocks @param {Grid} grid @param {Config} config @param {Float64Array} out @param {number} at
 */
function pyramidPool(blocks, grid, config, out, at) {
  const pairs = blocks.length / (grid.rows * grid.columns),
    mean = config.pooling === 'mean';
  for (const cell of grid.cells) {
    const share = 1 / ((cell.bottom - cell.top) * (cell.right - cell.left));
    out.fill(mean ? 0 : -Infinity, at, at + pairs);
    for (let row = cell.top; row < cell.bottom; row++) {
      for (let column = cell.left; column < cell.right; column++) {
        const from = (row * grid.columns + column) * pairs;
        for (let i = 0; i < pairs; i++) {
          if (mean) out[at + i] += share * blocks[from + i];
          else if (blocks[from + i] > out[at + i]) out[at + i] = blocks[from + i];
        }
      }
    }
    at += pairs;
  }
  return at;
}

/**
 * Stages 5 and 6: features of all images, (n, D).
 * @param {Batch} maps @param {Grid[]} grids @param {Config} config
 */
function poolFeatures(maps, grids, config) {
  const d = config.rectifier === 'both' ? 2 * maps.c : maps.c,
    pairs = countPairs(d, config.matrix_log);
  const size = pairs * grids.reduce((sum, grid) => sum + grid.cells.length, 0);
  const features = new Float64Array(maps.n * size);
  for (let image = 0, at = 0; image < maps.n; image++) {
    for (const grid of grids)
      at = pyramidPool(blockCorrelations(maps, image, grid, config), grid, config, features, at);
  }
  if (config.matrix_log) {
    for (let at = 0; at < features.length; at += pairs) matrixLog(features.subarray(at, at + pairs), d);
  }
  return features;
}

/**
 * Replace the upper triangle of a correlation matrix P (d, d) by that of its logarithm: the sum of X = P/tr P and of
 * eight doublings X ← 2X - X², scaled such that the identity stays itself.
 * @param {Float64Array} triangle @param {number} d
 */
function matrixLog(triangle, d) {
  let matrix = new Float64Array(d * d),
    trace = 0,
    value = 1 / d,
    unit = value;
  for (let a = 0, i = 0; a < d; a++) for (let b = a; b < d; b++, i++) matrix[a * d + b] = matrix[b * d + a] = triangle[i];
  for (let a = 0; a < d; a++) trace += matrix[a * d + a];
  if (!(trace > 0)) trace = 1;
  matrix = matrix.map((entry) => entry / trace);
  const total = matrix.slice();
  for (let step = 0; step < 8; step++) {
    unit += value = 2 * value - value * value;
    const square = symmetricSquare(matrix, d);
    matrix = matrix.map((entry, i) => 2 * entry - square[i]);
    for (let i = 0; i < d * d; i++) total[i] += matrix[i];
  }
  const scale = Math.sqrt(trace / d) / unit;
  for (let a = 0, i = 0; a < d; a++) for (let b = a; b < d; b++, i++) triangle[i] = scale * total[a * d + b];
}

/** Square of a symmetric matrix. @param {Float64Array} a @param {number} d */
function symmetricSquare(a, d) {
  const out = new Float64Array(d * d);
  for (let i = 0; i < d; i++) for (let j = i; j < d; j++) out[i * d + j] = out[j * d + i] = dot(a, i * d, a, j * d, d);
  return out;
}
