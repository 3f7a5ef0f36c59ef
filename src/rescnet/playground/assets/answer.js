/** The answer after each layer: bars, a chart of all layers, and a sentence. */

/**
 * The first answer and its changes, each with its layer.
 * @param {Float64Array[]} outputs @returns {[number, number][]} layer and class
 */
function changesOf(outputs) {
  /** @type {[number, number][]} */
  const changes = [];
  outputs.forEach((output, i) => {
    const answer = argmax(output);
    if (!changes.length || changes[changes.length - 1][1] !== answer) changes.push([i + 1, answer]);
  });
  return changes;
}

/** @param {string} text */
const capital = (text) => text.replace(/^./, (letter) => letter.toUpperCase());

/**
 * A sentence about how the answer changed.
 * @param {Float64Array[]} outputs @param {string[]} names @param {boolean} readout whether the last output is that of a readout
 * @param {string | null} truth
 */
function storyOf(outputs, names, readout, truth) {
  const changes = changesOf(outputs),
    said = (/** @type {number} */ c) => `“${names[c]}”`;
  const [first, ...later] = changes,
    who = (/** @type {number} */ layer) => (readout && layer === outputs.length ? 'the readout' : `layer ${layer}`);
  const last = changes[changes.length - 1][1];
  let text = `Layer 1 answers ${said(first[1])}.`;
  if (later.length > 2)
    text += ` The answer changes ${later.length} times; ${who(later[later.length - 1][0])} settles on ${said(last)}.`;
  else
    text += later
      .map(
        ([layer, answer]) =>
          ` ${capital(who(layer))} ${truth === names[answer] ? 'corrects' : 'changes'} it to ${said(answer)}.`,
      )
      .join('');
  if (!later.length && outputs.length > 1) text += ' The layers after it agree.';
  if (truth !== null) text += truth === names[last] ? ' That is right.' : ` In truth it is “${truth}”.`;
  return text;
}

/**
 * Draw the output of each class over the layers; a click chooses a layer.
 * @param {SVGElement} svg @param {Float64Array[]} outputs @param {string[]} names @param {number} layer from 1
 * @param {boolean} readout whether the last output is that of a readout
 */
function drawTrace(svg, outputs, names, layer, readout) {
  const values = outputs.flatMap((output) => Array.from(output)),
    low = Math.min(0, ...values),
    high = Math.max(...values, low + 1e-6);
  const left = 8,
    right = 372,
    top = 8,
    bottom = 128,
    count = outputs.length;
  const x = (/** @type {number} */ i) => (count === 1 ? (left + right) / 2 : left + ((right - left) * i) / (count - 1));
  const y = (/** @type {number} */ value) => bottom - ((bottom - top) * (value - low)) / (high - low);
  const last = argmax(outputs[count - 1]),
    answered = new Set(changesOf(outputs).map(([, answer]) => answer));
  svg.replaceChildren();
  const add = (/** @type {string} */ tag, /** @type {Record<string, unknown>} */ attributes, text = '') => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
    element.textContent = text;
    svg.append(element);
  };
  add('line', { class: 'axis', x1: left, x2: right, y1: y(0), y2: y(0) });
  add('line', { class: 'now', x1: x(layer - 1), x2: x(layer - 1), y1: top, y2: bottom });
  const order = names.map((_, c) => c).sort((a, b) => Number(a === last) - Number(b === last));
  for (const c of order) {
    const kind = c === last ? 'first' : answered.has(c) ? 'wrong' : '';
    const points = outputs.map((output, i) => `${x(i).toFixed(1)},${y(output[c]).toFixed(1)}`).join(' ');
    add('polyline', {
      class: `line ${kind}`,
      points: count === 1 ? `${left},${y(outputs[0][c])} ${right},${y(outputs[0][c])}` : points,
    });
    if (kind) add('text', { class: kind, x: right + 7, y: y(outputs[count - 1][c]) + 4 }, names[c].slice(0, 7));
  }
  for (let i = 0; i < count; i++) {
    if (count <= 12 || i % 5 === 4)
      add('text', { x: x(i), y: 146, 'text-anchor': 'middle' }, readout && i === count - 1 ? 'readout' : String(i + 1));
  }
}

/** Show the answer after the chosen layer. */
function drawAnswer() {
  const seen = view(),
    slider = byId('layer');
  const network = model?.network ?? app.network;
  slider.max = network ? network.layers.length + (model?.readout ? 1 : 0) : 1;
  slider.value = app.state.layer;
  const inside = Math.min(app.state.layer, network?.layers.length ?? app.state.layer);
  byId('layer-now').textContent = inside === app.state.layer ? `layer ${inside}` : 'the readout';
  byId('layer-inside').textContent = String(inside);
  byId('bars').replaceChildren();
  if (!seen) {
    byId('answer').textContent = '–';
    byId('story').textContent = model
      ? 'Draw something, or open an image.'
      : network
        ? 'Draw something, or choose a held-out digit.'
        : 'No network yet.';
    byId('trace').replaceChildren();
    byId('trace-caption').textContent = '';
    return;
  }
  const outputs = app.outputs,
    output = outputs[app.state.layer - 1],
    answer = seen.names[argmax(output)];
  byId('answer').textContent = answer;
  byId('answer').classList.toggle('long', answer.length > 2);
  byId('story').textContent = storyOf(
    outputs,
    seen.names,
    !!model?.readout,
    seen.truth === null ? null : seen.names[seen.truth],
  );
  drawBars(byId('bars'), seen.names, output, argmax(output), Math.max(...outputs.flatMap((one) => Array.from(one))));
  drawTrace(byId('trace'), outputs, seen.names, app.state.layer, !!model?.readout);
  const measured = app.heldOut && app.heldOut.seen === data.digits.test.flat().length ? app.heldOut : null;
  byId('trace-caption').textContent =
    'Output of each class after each layer.' +
    (measured
      ? ` Of ${measured.seen} held-out digits, layer 1 gets ${measured.right[0]} right, all layers ${measured.right.at(-1)}.`
      : '');
}

let playing = 0;
/** @param {number} layer from 1 */
function showLayer(layer) {
  clearTimeout(playing);
  app.state.layer = layer;
  draw();
}

/** Show the layers one after the other. @param {number} layer the next one */
function playFrom(layer) {
  showLayer(layer);
  if (layer < Number(byId('layer').max)) playing = setTimeout(playFrom, 700, layer + 1);
}
