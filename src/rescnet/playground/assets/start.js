/** Wiring: the state, the network learned from it, and the page. */
const data = JSON.parse(byId('data').textContent);
/** @type {{state: State, network: Network | null, present: number[], steps: Step[], outputs: Float64Array[], teach: number | null, current: Example | null,
 *   milliseconds: number, heldOut: {right: number[], seen: number} | null, turn: number}} */
const app = { state: readState(location.hash.slice(1)), network: null, present: [], steps: [], outputs: [], teach: null, current: null,
  milliseconds: 0, heldOut: null, turn: 0 };
const model = data.model ? readModel(data.model) : null;
const pad = new Pad(byId('pad'), model?.network.height ?? SIDE, model?.network.width ?? SIDE, padChanged);

/** Names of the network's classes. */
const names = () => (model ? model.names : app.present.map((label) => app.state.classes[label]));

/** The pad's image in the units of the training images. @returns {Batch} */
function padImage() {
  const ink = pad.ink(), low = model ? model.network.layers[0].range.low[0] : 0, high = model ? model.network.layers[0].range.high[0] : 16;
  const channels = model?.network.channels ?? 1, image = emptyBatch(1, channels, pad.h, pad.w);
  image.data.forEach((_, i) => { image.data[i] = low + (high - low) * ink[i % ink.length]; });
  return image;
}

/** Levels 0 to 16 of the pad's pixels. */
const padPixels = () => Uint8Array.from(pad.ink(), (value) => Math.round(16 * value));

/** Learn all layers from the examples. */
function retrain() {
  const examples = trainingSet(app.state, data.digits);
  app.present = app.state.classes.flatMap((_, label) => (examples.some((example) => example.label === label) ? [label] : []));
  app.network = null;
  let problem = '';
  if (app.present.length < 2) problem = 'Draw an example of each class: choose a class below the pad, then draw.';
  else {
    try {
      const labels = Uint8Array.from(examples, (example) => app.present.indexOf(example.label)), start = performance.now();
      app.network = trainNetwork(batchOf(examples.map((example) => example.pixels)), labels, app.present.length, app.state.config);
      app.milliseconds = performance.now() - start;
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
  }
  byId('problem').textContent = problem;
  byId('problem').hidden = !problem;
  byId('train-time').textContent = app.network ? `${Math.max(1, Math.round(app.milliseconds))} ms` : '…';
  byId('train-size').textContent = `${app.state.config.layers} layer${app.state.config.layers > 1 ? 's' : ''} on ${examples.length} images`;
  byId('held-out').hidden = byId('corrected').hidden = !app.state.perClass;
  app.heldOut = null;
  app.turn++;
  drawExamples(examples);
  ask();
  if (app.network && app.state.perClass && app.present.length === MOST_CLASSES) setTimeout(measureHeldOut, 300, app.turn, 0);
}

/** Pass held-out digits through the network, a few at a time, for their accuracy. @param {number} turn @param {number} from */
function measureHeldOut(turn, from) {
  if (turn !== app.turn || !app.network || pad.drawing) return;
  const all = data.digits.test.flatMap((/** @type {string[]} */ texts, /** @type {number} */ label) => texts.map((text) => ({ text, label })));
  app.heldOut ??= { right: app.network.layers.map(() => 0), seen: 0 };
  for (const { text, label } of all.slice(from, from + 5)) {
    forward(app.network, batchOf([readPixels(text)])).forEach((step, i) => { if (argmax(step.output) === label) /** @type {any} */ (app.heldOut).right[i]++; });
    app.heldOut.seen++;
  }
  if (from + 5 < all.length) setTimeout(measureHeldOut, 0, turn, from + 5);
  else drawAnswer();
}

/** Pass the drawing through the network and show the answer. */
function ask() {
  const network = model?.network ?? app.network;
  const image = padImage();
  app.steps = network && !pad.isEmpty ? forward(network, image) : [];
  app.outputs = app.steps.map((step) => step.output);
  if (network && model?.readout && app.steps.length) app.outputs.push(readOut(network, model.readout, image, app.steps));
  if (network) app.state.layer = Math.max(1, Math.min(app.state.layer, network.layers.length + (model?.readout ? 1 : 0)));
  draw();
}

/** @returns {View | null} */
function view() {
  const network = model?.network ?? app.network, truth = app.state.truth === null ? -1 : app.present.indexOf(app.state.truth);
  if (!network || !app.steps.length) return null;
  return { network, steps: app.steps, layer: Math.min(app.state.layer, app.steps.length), names: names(), truth: truth < 0 ? null : truth, trained: !model };
}

function draw() {
  drawAnswer();
  drawInside();
  drawTeaching();
  rememberState();
}

function drawAnswer() {
  const seen = view(), slider = byId('layer');
  const network = model?.network ?? app.network;
  slider.max = network ? network.layers.length + (model?.readout ? 1 : 0) : 1;
  slider.value = app.state.layer;
  const inside = Math.min(app.state.layer, network?.layers.length ?? app.state.layer);
  byId('layer-now').textContent = inside === app.state.layer ? `layer ${inside}` : 'the readout';
  byId('layer-inside').textContent = String(inside);
  byId('bars').replaceChildren();
  if (!seen) {
    byId('answer').textContent = '–';
    byId('story').textContent = model ? 'Draw something, or open an image.' : network ? 'Draw something, or choose a held-out digit.' : 'No network yet.';
    byId('trace').replaceChildren();
    byId('trace-caption').textContent = '';
    return;
  }
  const outputs = app.outputs, output = outputs[app.state.layer - 1], answer = seen.names[argmax(output)];
  byId('answer').textContent = answer;
  byId('answer').classList.toggle('long', answer.length > 3);
  byId('story').textContent = storyOf(outputs, seen.names, !!model?.readout, seen.truth === null ? null : seen.names[seen.truth]);
  drawBars(byId('bars'), seen.names, output, argmax(output), Math.max(...outputs.flatMap((one) => Array.from(one))));
  drawTrace(byId('trace'), outputs, seen.names, app.state.layer, !!model?.readout);
  const measured = app.heldOut && app.heldOut.seen === data.digits.test.flat().length ? app.heldOut : null;
  byId('trace-caption').textContent = 'Output of each class after each layer.' + (measured
    ? ` Of ${measured.seen} held-out digits, layer 1 gets ${measured.right[0]} right, layer ${measured.right.length} gets ${measured.right[measured.right.length - 1]}.` : '');
}

function drawInside() {
  const seen = view();
  /** @type {HTMLElement} */ (document.querySelector('.inside')).hidden = !seen;
  if (!seen) return;
  if (!STAGES[app.state.stage]) app.state.stage = 'filters';
  drawCards(byId('stages'), seen, app.state.stage, (stage) => { app.state.stage = stage; drawInside(); rememberState(); });
  drawDetail(seen, app.state.stage, () => drawInside());
}

/** The classes as buttons: a chosen one is taught by each stroke. */
function drawTeaching() {
  const chips = app.state.classes.map((name, label) => {
    const chip = make('button', { 'aria-pressed': String(app.teach === label), title: `Key ${label}` }, name || '·');
    chip.addEventListener('click', () => teach(app.teach === label ? null : label));
    return chip;
  });
  byId('chips').replaceChildren(...chips);
  byId('teach-hint').textContent = app.teach === null ? 'No class is chosen: a drawing is a question.'
    : `Each stroke is learned as “${app.state.classes[app.teach]}”. New drawing begins another example.`;
  byId('pad-size').textContent = `${pad.h}×${pad.w}`;
  paintTiles(byId('seen'), [pad.ink().subarray(0, pad.h * pad.w)], pad.w, 1, 'ink', 32 / pad.w, 1);
}

/** @param {(Example & {bundled: number})[]} examples */
function drawExamples(examples) {
  const rows = app.state.classes.map((name, label) => {
    const input = /** @type {HTMLInputElement} */ (make('input', { value: name, maxlength: '12', 'aria-label': `Name of class ${label + 1}` }));
    input.addEventListener('change', () => { app.state.classes[label] = input.value.trim() || String(label); retrain(); });
    const thumbnails = examples.filter((example) => example.label === label).map((example) => {
      const button = make('button', { title: 'Remove this example', class: example.bundled < 0 ? 'drawn' : '' },
        picture([example.pixels], SIDE, 1, 'ink', 3.4, 16));
      button.addEventListener('click', () => remove(example));
      return button;
    });
    return make('div', { class: 'class' }, input, make('div', {}, ...thumbnails));
  });
  byId('examples').replaceChildren(...rows);
  byId('add-class').disabled = app.state.classes.length >= MOST_CLASSES;
}

/** @param {Example & {bundled: number}} example */
function remove(example) {
  if (example.bundled >= 0) app.state.removed.add(example.bundled);
  else app.state.drawn = app.state.drawn.filter((drawn) => drawn.pixels !== example.pixels);
  if (app.current && !app.state.drawn.includes(app.current)) app.current = null;
  retrain();
}

let waiting = 0;
/** @param {boolean} done false while a stroke goes on */
function padChanged(done) {
  app.state.truth = app.teach;
  app.state.question = model ? null : padPixels();
  if (done && app.teach !== null) return learnDrawing();
  cancelAnimationFrame(waiting);
  if (done) ask();
  else waiting = requestAnimationFrame(ask);
}

/** Learn the drawing as an example of the chosen class. */
function learnDrawing() {
  if (app.teach === null || pad.isEmpty) return;
  if (app.current) Object.assign(app.current, { label: app.teach, pixels: padPixels() });
  else app.state.drawn.push(app.current = { label: app.teach, pixels: padPixels() });
  app.state.truth = app.teach;
  retrain();
}

/**
 * Choose the class that strokes are learned as; null: none. A question on the pad is learned at once; an example that was
 * learned stays, and the pad is emptied for the next.
 * @param {number | null} label
 */
function teach(label) {
  app.teach = label;
  if (app.current) return showQuestion(null, label);
  if (label !== null && !pad.isEmpty) return learnDrawing();
  draw();
}

/** Show pixels on the pad as a question. @param {Uint8Array | null} pixels @param {number | null} truth */
function showQuestion(pixels, truth) {
  app.current = null;
  if (pixels) pad.load(Float64Array.from(pixels, (level) => level / 16));
  else pad.clear();
  app.state.question = pixels;
  app.state.truth = truth;
  ask();
}

let heldOutTurn = 0;
/** Show the next held-out digit, or the next whose answer the layers correct. @param {boolean} corrected */
function showHeldOut(corrected) {
  const all = data.digits.test.flatMap((/** @type {string[]} */ texts, /** @type {number} */ label) => texts.map((text) => ({ text, label })));
  app.teach = null;
  for (let tries = 0; tries < all.length; tries++) {
    const { text, label } = all[(heldOutTurn = (heldOutTurn + 37) % all.length)], pixels = readPixels(text);
    if (corrected && app.network) {
      const steps = forward(app.network, batchOf([pixels])), own = app.present.indexOf(label);
      if (argmax(steps[0].output) === own || argmax(steps[steps.length - 1].output) !== own) continue;
    }
    return showQuestion(pixels, label);
  }
  byId('story').textContent = 'No held-out digit is corrected by these layers.';
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

let remembering = 0;
function rememberState() {
  if (model) return;
  clearTimeout(remembering);
  remembering = setTimeout(() => history.replaceState(null, '', `#${writeState(app.state)}`), 150);
}

function drawSettings() {
  const sliders = SLIDERS.map(([option, , label, least, most, step]) =>
    setting(label, least, most, step, Number(app.state.config[option]), (value) => {
      const wasLast = app.state.layer === app.state.config.layers;
      Object.assign(app.state.config, { [option]: value });
      if (option === 'layers' && wasLast) app.state.layer = value;
    }));
  if (app.state.perClass) sliders.unshift(setting('Digits per class', 1, BUNDLED, 1, app.state.perClass, (value) => { app.state.perClass = value; }));
  byId('settings').replaceChildren(...sliders);
}

/** @param {string} label @param {number} least @param {number} most @param {number} step @param {number} value @param {(value: number) => void} changed */
function setting(label, least, most, step, value, changed) {
  const input = /** @type {HTMLInputElement} */ (make('input', { type: 'range', min: String(least), max: String(most), step: String(step), value: String(value) }));
  const shown = make('output', {}, String(value));
  input.addEventListener('input', () => { shown.textContent = input.value; changed(Number(input.value)); retrain(); });
  return make('label', {}, make('span', {}, label, shown), input);
}

/** @param {State} state */
function restart(state) {
  Object.assign(app, { state, teach: null, current: null });
  byId('fit').checked = pad.fit = state.fit;
  drawSettings();
  if (state.question) pad.load(Float64Array.from(state.question, (level) => level / 16));
  else pad.clear();
  retrain();
  if (!state.question && state.perClass) showHeldOut(true);
}

byId('clear').addEventListener('click', () => showQuestion(null, app.teach));
byId('held-out').addEventListener('click', () => showHeldOut(false));
byId('corrected').addEventListener('click', () => showHeldOut(true));
byId('fit').addEventListener('change', () => { app.state.fit = pad.fit = byId('fit').checked; padChanged(true); });
byId('digits').addEventListener('click', () => restart(digitsState()));
byId('empty').addEventListener('click', () => {
  restart({ ...digitsState(), classes: ['A', 'B'], perClass: 0 });
  teach(0);
});
byId('add-class').addEventListener('click', () => {
  const used = app.state.classes, next = [...'ABCDEFGHIJ'].find((name) => !used.includes(name)) ?? String(used.length);
  used.push(next);
  retrain();
  teach(used.length - 1);
});
byId('layer').addEventListener('input', () => showLayer(Number(byId('layer').value)));
byId('play').addEventListener('click', () => playFrom(1));
byId('trace').addEventListener('click', (/** @type {MouseEvent} */ event) => {
  const box = byId('trace').getBoundingClientRect(), count = app.outputs.length;
  const place = ((event.clientX - box.left) / box.width * 420 - 8) / 364;
  showLayer(Math.max(1, Math.min(count, 1 + Math.round(place * (count - 1)))));
});
byId('share').addEventListener('click', async () => {
  history.replaceState(null, '', `#${writeState(app.state)}`);
  const left = app.state.drawn.length && !location.hash.includes('x=');
  try { await navigator.clipboard.writeText(location.href); } catch { /* the address bar has it too */ }
  byId('share').textContent = left ? 'Copied without the drawings: too many' : 'Link copied';
  setTimeout(() => { byId('share').textContent = 'Copy link'; }, 2500);
});
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target instanceof HTMLInputElement && event.target.type !== 'range') return;
  if (event.key === 'n' || event.key === 'Delete') showQuestion(null, app.teach);
  else if (/^[0-9]$/.test(event.key) && Number(event.key) < app.state.classes.length && !model) teach(app.teach === Number(event.key) ? null : Number(event.key));
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { pad.paint(); if (!model) retrain(); else ask(); });
addEventListener('hashchange', () => { if (!model) restart(readState(location.hash.slice(1))); });
byId('open').addEventListener('change', async () => {
  const file = byId('open').files[0];
  if (file && model) { pad.load(await inkOfFile(file, model.network)); ask(); }
});

if (model) showModel(model);
else {
  restart(app.state);
  setTimeout(retrain, 400); // the browser has compiled the code now: show the time that a stroke takes
}
Object.assign(globalThis, { playground: { app, pad, model, ask, readOut, trainNetwork, forward, batchOf, trainingSet, readPixels, data } });
document.documentElement.dataset.ready = 'true';
