/**
 * A model of the user, embedded by `rescnet playground MODEL`.
 * @typedef {{network: Network, readout: Readout | null, names: string[], facts: [string, string][]}} LoadedModel
 */

/** Bytes from base64. @param {string} text */
function readBytes(text) {
  const letters = atob(text),
    bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** Float32 numbers from base64. @param {string} text */
const readNumbers = (text) => Float64Array.from(new Float32Array(readBytes(text).buffer));

/** @param {any} given @returns {LoadedModel} */
function readModel(given) {
  const [channels, height, width] = given.shape,
    config = given.config;
  const layers = given.layers.map((/** @type {any} */ layer) => ({
    range: { low: readNumbers(layer.low), high: readNumbers(layer.high) },
    weights: readNumbers(layer.weights),
    bias: readNumbers(layer.bias),
    size: layer.size,
    head: { weights: readNumbers(layer.head.weights), bias: readNumbers(layer.head.bias), present: layer.head.present },
    rate: layer.rate,
    positiveShare: layer.positive_share,
    ridge: config.ridge,
    targets: new Uint8Array(),
    accuracy: 0,
  }));
  const network = {
    config,
    classes: given.names.length,
    channels,
    height,
    width,
    grids: makeGrids(config, height, width),
    layers,
  };
  return { network, readout: given.readout && readReadout(given.readout), names: given.names, facts: given.facts };
}

/** Show a model instead of the examples. @param {LoadedModel} loaded */
function showModel(loaded) {
  for (const id of ['examples-panel', 'teach', 'held-out', 'corrected', 'share']) byId(id).hidden = true;
  for (const id of ['model-panel', 'open-label']) byId(id).hidden = false;
  byId('title').textContent = 'Look inside your model';
  byId('lede').textContent =
    'Draw, or open an image. The page passes it through every layer of your model and shows how each one corrects the answer.';
  byId('model-facts').replaceChildren(
    ...loaded.facts.flatMap(([name, value]) => [make('dt', {}, name), make('dd', {}, value)]),
  );
  byId('fit').checked = true;
  app.state.layer = loaded.network.layers.length + (loaded.readout ? 1 : 0);
  ask();
}

/** Ink of an image file, scaled to the size of the network's images. @param {File} file @param {Network} network */
async function inkOfFile(file, network) {
  const bitmap = await createImageBitmap(file),
    { height, width, channels } = network,
    canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  context.imageSmoothingQuality = 'high';
  context.drawImage(bitmap, 0, 0, width, height);
  const pixels = context.getImageData(0, 0, width, height).data,
    ink = new Float64Array(channels * height * width);
  for (let i = 0; i < height * width; i++) {
    const [red, green, blue] = [0, 1, 2].map((c) => pixels[4 * i + c] / 255);
    if (channels === 3)
      [red, green, blue].forEach((value, c) => {
        ink[c * height * width + i] = value;
      });
    else ink[i] = 0.299 * red + 0.587 * green + 0.114 * blue;
  }
  return ink;
}
