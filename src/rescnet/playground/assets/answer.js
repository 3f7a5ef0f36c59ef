/** The answer after each layer: bars, a chart of all layers, and a sentence. */

/** The classes answered after each layer, without repeats. @param {Float64Array[]} outputs @returns {[number, number][]} layer, class */
function changesOf(outputs) {
  /** @type {[number, number][]} */
  const changes = [];
  outputs.forEach((output, i) => {
    const answer = argmax(output);
    if (!changes.length || changes[changes.length - 1][1] !== answer) changes.push([i + 1, answer]);
  });
  return changes;
}

/**
 * A sentence about how the answer changed.
 * @param {Float64Array[]} outputs @param {string[]} names @param {boolean} readout whether the last output is that of a readout
 * @param {string | null} truth
 */
function storyOf(outputs, names, readout, truth) {
  const changes = changesOf(outputs), said = (/** @type {number} */ c) => `“${names[c]}”`;
  const [first, ...later] = changes, who = (/** @type {number} */ layer) => (readout && layer === outputs.length ? 'the readout' : `layer ${layer}`);
  const last = changes[changes.length - 1][1];
  let text = `Layer 1 answers ${said(first[1])}.`;
  if (later.length > 2) text += ` The answer changes ${later.length} times; ${who(later[later.length - 1][0])} settles on ${said(last)}.`;
  else text += later.map(([layer, answer]) => ` ${who(layer).replace(/^./, (letter) => letter.toUpperCase())} ${truth === names[answer] ? 'corrects' : 'changes'} it to ${said(answer)}.`).join('');
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
  const values = outputs.flatMap((output) => Array.from(output)), low = Math.min(0, ...values), high = Math.max(...values, low + 1e-6);
  const left = 8, right = 372, top = 8, bottom = 128, count = outputs.length;
  const x = (/** @type {number} */ i) => (count === 1 ? (left + right) / 2 : left + ((right - left) * i) / (count - 1));
  const y = (/** @type {number} */ value) => bottom - ((bottom - top) * (value - low)) / (high - low);
  const last = argmax(outputs[count - 1]), answered = new Set(changesOf(outputs).map(([, answer]) => answer));
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
    add('polyline', { class: `line ${kind}`, points: count === 1 ? `${left},${y(outputs[0][c])} ${right},${y(outputs[0][c])}` : points });
    if (kind) add('text', { class: kind, x: right + 7, y: y(outputs[count - 1][c]) + 4 }, names[c].slice(0, 7));
  }
  for (let i = 0; i < count; i++) {
    if (count <= 12 || i % 5 === 4) add('text', { x: x(i), y: 146, 'text-anchor': 'middle' }, readout && i === count - 1 ? 'readout' : String(i + 1));
  }
}
