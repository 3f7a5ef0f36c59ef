/**
 * Training and the forward pass (Algorithm 1). Options have the names of rescnet.NetworkConfig.
 * @typedef {{layers: number, filters: number, filter_size: number, block_sizes: number[], block_stride: number,
 *   pyramid: number[], pyramid_bins: string, pooling: string, rectifier: string, matrix_log: boolean, head: string,
 *   posterior: string, sigmoid_scale: number, softmax_scale: number, ridge: number, learning_rate: number,
 *   ceiling: number, bank: string, seed: number, positives: number, negatives: number, tolerance: number,
 *   draw_ridge: number}} Config
 * @typedef {{range: ValueRange, weights: Float64Array, bias: Float64Array, size: number, head: Head, rate: number,
 *   positiveShare: number, ridge: number, targets: Uint8Array, accuracy: number}} Layer
 * @typedef {{config: Config, classes: number, channels: number, height: number, width: number, grids: Grid[],
 *   layers: Layer[]}} Network
 * @typedef {{input: Batch, maps: Batch, features: Float64Array, scores: Float64Array, posterior: Float64Array,
 *   before: Float64Array, output: Float64Array}} Step of one image
 */

/** @type {Config} the paper's layer with few filters; NetworkConfig has the same values where the page has no slider */
const DEFAULT_CONFIG = {
  layers: 6,
  filters: 6,
  filter_size: 3,
  block_sizes: [3],
  block_stride: 1,
  pyramid: [3, 1],
  pyramid_bins: 'official',
  pooling: 'max',
  rectifier: 'relu',
  matrix_log: false,
  head: 'lda',
  posterior: 'sigmoid',
  sigmoid_scale: 16,
  softmax_scale: 0.001,
  ridge: 0.8,
  learning_rate: 0.4,
  ceiling: 0.8,
  bank: 'pca + stacked-lda',
  seed: 0,
  positives: 2,
  negatives: 32,
  tolerance: 0,
  draw_ridge: 0.01,
};

/**
 * Train a network of the paper's layers: half PCA filters, half stacked-LDA filters, one-vs-rest LDA heads.
 * @param {Batch} images @param {Uint8Array} labels @param {number} classes @param {Config} config @returns {Network}
 */
function trainNetwork(images, labels, classes, config) {
  /** @type {Network} */
  const network = {
    config,
    classes,
    channels: images.c,
    height: images.h,
    width: images.w,
    layers: [],
    grids: makeGrids(config, images.h, images.w),
  };
  const n = images.n,
    imageRange = sharedRange(rangeOf(images)),
    scaled = minMaxScale(images, imageRange);
  const outputs = Array.from({ length: n }, () => new Float64Array(classes));
  /** @type {Batch | null} */
  let maps = null;
  for (let number = 1; number <= config.layers; number++) {
    const range = maps ? joinRanges(sharedRange(rangeOf(maps)), sharedRange(rangeOf(scaled))) : imageRange;
    const input = maps ? minMaxScale(concatenate(maps, scaled), range) : scaled;
    const targets = number === 1 ? labels.slice() : groupsOf(labels, outputs, config.ceiling);
    const positives = targets.reduce((sum, group) => sum + (group < classes ? 1 : 0), 0);
    const filters = learnFilters(input, labels, number, config);
    maps = convolve(input, filters.weights, filters.bias, config.filter_size);
    const features = poolFeatures(maps, network.grids, config),
      size = features.length / n;
    const { head, ridge } = fitHead(features, targets, 2 * classes, config.ridge);
    /** @type {Layer} */
    const layer = {
      range,
      ...filters,
      size: config.filter_size,
      head,
      rate: config.learning_rate,
      ridge,
      targets,
      positiveShare: positives / n,
      accuracy: 0,
    };
    for (let i = 0; i < n; i++) {
      outputs[i] = update(layer, outputs[i], features.subarray(i * size, (i + 1) * size), config).output;
      if (argmax(outputs[i]) === labels[i]) layer.accuracy += 1 / n;
    }
    network.layers.push(layer);
  }
  return network;
}

/**
 * Filters of a layer, counted from 1: half PCA, half stacked-LDA.
 * @param {Batch} input @param {Uint8Array} labels @param {number} number @param {Config} config
 */
function learnFilters(input, labels, number, config) {
  const k = config.filter_size,
    half = config.filters / 2,
    moments = patchMoments(input, k);
  const random = new TorchRandom(config.seed * 1000003 + number);
  const pca = pcaFilters(moments, half),
    lda = stackedLdaFilters(input, labels, k, moments.mean, half, random, config);
  return { weights: joined(pca.weights, lda.weights), bias: joined(pca.bias, lda.bias) };
}

/** @param {Float64Array} a @param {Float64Array} b */
function joined(a, b) {
  const out = new Float64Array(a.length + b.length);
  out.set(a);
  out.set(b, a.length);
  return out;
}

/** @param {ValueRange} a @param {ValueRange} b @returns {ValueRange} */
const joinRanges = (a, b) => ({ low: joined(a.low, b.low), high: joined(a.high, b.high) });

/** @param {ArrayLike<number>} values index of the largest, the first if several are equal */
function argmax(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

/**
 * Groups of a layer: the new label, plus C if its sign is negative.
 * @param {Uint8Array} labels @param {Float64Array[]} outputs @param {number} ceiling
 */
function groupsOf(labels, outputs, ceiling) {
  return labels.map((label, i) => {
    const { target, positive } = residualTarget(label, outputs[i], ceiling);
    return positive ? target : target + outputs[i].length;
  });
}

/**
 * Stages 7 and 8 of one image (equation 11).
 * @param {Layer} layer @param {Float64Array} before @param {Float64Array} features @param {Config} config
 */
function update(layer, before, features, config) {
  const scores = scoresOf(layer.head, features),
    classes = before.length;
  if (config.head === 'ridge') {
    return { scores, posterior: scores, output: before.map((value, c) => value + layer.rate * scores[c]) };
  }
  const posterior = posteriors(scores, layer.head.present, config),
    share = layer.positiveShare;
  const output = before.map(
    (value, c) => value + layer.rate * (share * posterior[c] - (1 - share) * posterior[classes + c]),
  );
  return { scores, posterior, output };
}

/**
 * Pass one image through all layers. @param {Network} network @param {Batch} image @returns {Step[]}
 */
function forward(network, image) {
  const { config, layers, grids } = network,
    scaled = minMaxScale(image, layers[0].range);
  /** @type {Step[]} */
  const steps = [];
  for (const layer of layers) {
    const last = steps.at(-1),
      seesMaps = layer.weights.length > layer.bias.length * image.c * layer.size ** 2;
    const input = last && seesMaps ? minMaxScale(concatenate(last.maps, scaled), layer.range) : scaled;
    const maps = convolve(input, layer.weights, layer.bias, layer.size);
    const features = poolFeatures(maps, grids, config);
    const before = last ? last.output : new Float64Array(network.classes);
    steps.push({ input, maps, features, before, ...update(layer, before, features, config) });
  }
  return steps;
}
