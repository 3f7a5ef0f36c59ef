/**
 * The kernel readout of a model: an image is compared with every training image by a code of all layers' features.
 * @typedef {{integers: Int8Array, steps: Float64Array}} Quantised rows of r numbers, each times the step of its column
 * @typedef {{weights: Float64Array[], size: number, centre: Float64Array, projection: Quantised, codes: Quantised,
 *   norms: Float64Array, lengths: Float64Array, coefficients: Float64Array, scale: number, outside: number, mirrored: boolean,
 *   correction: {centres: Float64Array, coefficients: Float64Array} | null}} Readout
 */

/** @param {any} given @returns {Readout} */
function readReadout(given) {
  /** @param {{integers: string, steps: string}} part @returns {Quantised} */
  const quantised = (part) => ({
    integers: new Int8Array(readBytes(part.integers).buffer),
    steps: readNumbers(part.steps),
  });
  const projection = quantised(given.projection),
    codes = quantised(given.codes),
    correction = given.correction;
  const scaled = (/** @type {Quantised} */ { integers, steps }, /** @type {number} */ i) =>
    integers[i] * steps[i % steps.length];
  const norms = new Float64Array(codes.integers.length / codes.steps.length),
    lengths = new Float64Array(projection.steps.length);
  codes.integers.forEach((_, i) => {
    norms[Math.floor(i / codes.steps.length)] += scaled(codes, i) ** 2;
  });
  projection.integers.forEach((_, i) => {
    lengths[i % lengths.length] += scaled(projection, i) ** 2;
  });
  return {
    weights: given.weights.map(readNumbers),
    size: given.size,
    centre: readNumbers(given.centre),
    projection,
    codes,
    norms,
    lengths,
    coefficients: readNumbers(given.coefficients),
    scale: given.scale,
    outside: given.outside,
    mirrored: given.mirrored,
    correction: correction && {
      centres: readNumbers(correction.centres),
      coefficients: readNumbers(correction.coefficients),
    },
  };
}

/** Mirror an image, left to right. @param {Batch} image @returns {Batch} */
function mirrored(image) {
  const { w } = image;
  return { ...image, data: image.data.map((_, i) => image.data[i - (i % w) + w - 1 - (i % w)]) };
}

/**
 * The output of a network with a readout; `steps` are those of the image.
 * @param {Network} network @param {Readout} readout @param {Batch} image @param {Step[]} steps @returns {Float64Array}
 */
function readOut(network, readout, image, steps) {
  const seen = readout.mirrored ? [steps, forward(network, mirrored(image))] : [steps],
    classes = network.classes;
  const sketch = new Float64Array(readout.centre.length),
    output = new Float64Array(classes);
  for (const one of seen) {
    one.forEach(({ features }, layer) =>
      features.forEach((value, j) => {
        sketch[layer * readout.size + (j % readout.size)] += (value * readout.weights[layer][j]) / seen.length;
      }),
    );
    one[one.length - 1].output.forEach((value, c) => {
      output[c] += value / seen.length;
    });
  }
  const { integers, steps: scales } = readout.projection,
    r = scales.length,
    code = new Float64Array(r);
  let square = 0;
  sketch.forEach((value, row) => {
    const centred = value - readout.centre[row];
    square += centred * centred;
    if (centred) for (let k = 0; k < r; k++) code[k] += centred * integers[row * r + k];
  });
  let norm = 0,
    inside = 0;
  code.forEach((_, k) => {
    code[k] *= scales[k];
    norm += code[k] ** 2;
    if (readout.lengths[k] > 0) inside += code[k] ** 2 / readout.lengths[k];
  });
  norm += readout.outside * Math.max(0, square - inside);
  const known = readout.codes;
  const weighted = code.map((value, k) => value * known.steps[k]);
  readout.norms.forEach((own, row) => {
    let product = 0;
    for (let k = 0; k < r; k++) product += weighted[k] * known.integers[row * r + k];
    const near = Math.exp(Math.min(0, 2 * product - norm - own) * readout.scale);
    for (let c = 0; c < classes; c++) output[c] += near * readout.coefficients[row * classes + c];
  });
  return readout.correction ? corrected(output, readout.correction) : output;
}

/**
 * Leave-one-out correction of outputs (C,).
 * @param {Float64Array} outputs @param {{centres: Float64Array, coefficients: Float64Array}} correction
 */
function corrected(outputs, { centres, coefficients }) {
  const classes = outputs.length,
    found = outputs.slice();
  for (let row = 0; row < centres.length; row += classes) {
    const square = outputs.reduce((sum, value, c) => sum + (value - centres[row + c]) ** 2, 0),
      near = Math.exp(-2 * square);
    for (let c = 0; c < classes; c++) found[c] += near * coefficients[row + c];
  }
  return found;
}
