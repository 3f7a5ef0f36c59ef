/** Wiring: the state, the network learned from it, and the page. */
const data = JSON.parse(byId('data').textContent);
/**
 * `present` are the classes with examples, in the order of the network's outputs; `outputs` those after each layer and
 * the readout; `teach` is the class that strokes are learned as, `current` the example on the pad.
 * @type {{state: State, network: Network | null, present: number[], steps: Step[], outputs: Float64Array[],
 *   teach: number | null, current: Example | null, milliseconds: number, answerTime: number,
 *   heldOut: {right: number[], seen: number} | null, turn: number}}
 */
const app = {
  state: readState(location.hash.slice(1)),
  network: null,
  present: [],
  steps: [],
  outputs: [],
  teach: null,
  current: null,
  milliseconds: 0,
  answerTime: 0,
  heldOut: null,
  turn: 0,
};
const model = data.model ? readModel(data.model) : null;
const pad = new Pad(byId('pad'), model?.network.height ?? SIDE, model?.network.width ?? SIDE, padChanged);
pad.replaced = () => {
  app.current = null;
};

/** Names of the network's classes. */
const names = () => (model ? model.names : app.present.map((label) => app.state.classes[label]));

/** The pad's image in the units of the training images. @returns {Batch} */
function padImage() {
  const ink = pad.ink(),
    network = model?.network,
    image = emptyBatch(1, network?.channels ?? 1, pad.h, pad.w);
  const low = Math.min(0, ...(network?.layers[0].range.low ?? [])),
    high = Math.max(...(network?.layers[0].range.high ?? [16]));
  const white = low < 0 ? high : ([1, 16, 255].find((most) => high <= most) ?? high); // of image files: 255
  image.data.forEach((_, i) => {
    image.data[i] = low + (white - low) * ink[i % ink.length];
  });
  return image;
}

/** Levels 0 to 16 of the pad's pixels. */
const padPixels = () => Uint8Array.from(pad.ink(), (value) => Math.round(16 * value));

/** Learn all layers from the examples. */
function retrain() {
  const examples = trainingSet(app.state, data.digits);
  app.present = app.state.classes.flatMap((_, label) =>
    examples.some((example) => example.label === label) ? [label] : [],
  );
  app.network = null;
  let problem = '';
  if (app.present.length < 2) problem = 'Draw an example of each class: choose a class below the pad, then draw.';
  else {
    try {
      const labels = Uint8Array.from(examples, (example) => app.present.indexOf(example.label)),
        start = performance.now();
      app.network = trainNetwork(
        batchOf(examples.map((example) => example.pixels)),
        labels,
        app.present.length,
        app.state.config,
      );
      app.milliseconds = performance.now() - start;
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
  }
  byId('problem').textContent = problem;
  byId('problem').hidden = !problem;
  byId('train-time').textContent = app.network ? `${Math.max(1, Math.round(app.milliseconds))} ms` : '…';
  byId('train-size').textContent =
    `${app.state.config.layers} layer${app.state.config.layers > 1 ? 's' : ''} on ${examples.length} images`;
  byId('held-out').hidden = byId('corrected').hidden = !app.state.perClass;
  app.heldOut = null;
  app.turn++;
  drawExamples(examples);
  ask();
  if (app.network && app.state.perClass && app.present.length === MOST_CLASSES)
    setTimeout(measureHeldOut, 300, app.turn, 0);
}

/**
 * Pass held-out digits through the network, a few at a time, for their accuracy; stop if it was trained again.
 * @param {number} turn @param {number} from
 */
function measureHeldOut(turn, from) {
  if (turn !== app.turn || !app.network || pad.drawing) return;
  const all = data.digits.test.flatMap((/** @type {string[]} */ texts, /** @type {number} */ label) =>
    texts.map((text) => ({ text, label })),
  );
  app.heldOut ??= { right: app.network.layers.map(() => 0), seen: 0 };
  for (const { text, label } of all.slice(from, from + 5)) {
    forward(app.network, batchOf([readPixels(text)])).forEach((step, i) => {
      if (argmax(step.output) === label) /** @type {any} */ (app.heldOut).right[i]++;
    });
    app.heldOut.seen++;
  }
  if (from + 5 < all.length) setTimeout(measureHeldOut, 0, turn, from + 5);
  else drawAnswer();
}

/** Train again while nothing happens: the browser compiles the code meanwhile. @param {number} times */
function warmUp(times) {
  if (pad.drawing || app.turn > 3) return;
  retrain();
  if (times > 1) setTimeout(warmUp, 100, times - 1);
}

/** Pass the drawing through the network and show the answer. */
function ask() {
  const network = model?.network ?? app.network;
  const image = padImage(),
    start = performance.now();
  app.steps = network && !pad.isEmpty ? forward(network, image) : [];
  app.outputs = app.steps.map((step) => step.output);
  if (network && model?.readout && app.steps.length)
    app.outputs.push(readOut(network, model.readout, image, app.steps));
  app.answerTime = performance.now() - start;
  if (network)
    app.state.layer = Math.max(1, Math.min(app.state.layer, network.layers.length + (model?.readout ? 1 : 0)));
  draw();
}

/** @returns {View | null} */
function view() {
  const network = model?.network ?? app.network,
    truth = app.state.truth === null ? -1 : app.present.indexOf(app.state.truth);
  if (!network || !app.steps.length) return null;
  return {
    network,
    steps: app.steps,
    layer: Math.min(app.state.layer, app.steps.length),
    names: names(),
    truth: truth < 0 ? null : truth,
    trained: !model,
  };
}

function draw() {
  drawAnswer();
  drawInside();
  drawTeaching();
  rememberState();
}

function drawInside() {
  const seen = view();
  /** @type {HTMLElement} */ (document.querySelector('.inside')).hidden = !seen;
  if (!seen) return;
  if (!STAGES[app.state.stage]) app.state.stage = 'filters';
  drawCards(byId('stages'), seen, app.state.stage, (stage) => {
    app.state.stage = stage;
    drawInside();
    rememberState();
  });
  drawDetail(seen, app.state.stage, () => drawInside());
}

const LIVE = 60; // milliseconds: a slower network answers at the end of a stroke
let waiting = 0;
/** @param {boolean} done false while a stroke goes on */
function padChanged(done) {
  app.state.truth = app.teach;
  app.state.question = model ? null : padPixels();
  if (done && app.teach !== null) return learnDrawing();
  cancelAnimationFrame(waiting);
  if (done) ask();
  else if (app.answerTime < LIVE) waiting = requestAnimationFrame(ask);
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
    }),
  );
  if (app.state.perClass)
    sliders.unshift(
      setting('Digits per class', 1, BUNDLED, 1, app.state.perClass, (value) => {
        app.state.perClass = value;
      }),
    );
  byId('settings').replaceChildren(...sliders);
}

/**
 * @param {string} label @param {number} least @param {number} most @param {number} step @param {number} value
 * @param {(value: number) => void} changed
 */
function setting(label, least, most, step, value, changed) {
  const input = /** @type {HTMLInputElement} */ (
    make('input', { type: 'range', min: String(least), max: String(most), step: String(step), value: String(value) })
  );
  const shown = make('output', {}, String(value));
  input.addEventListener('input', () => {
    shown.textContent = input.value;
    changed(Number(input.value));
    retrain();
  });
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
byId('fit').addEventListener('change', () => {
  app.state.fit = pad.fit = byId('fit').checked;
  padChanged(true);
});
byId('digits').addEventListener('click', () => restart(digitsState()));
byId('empty').addEventListener('click', () => {
  restart({ ...digitsState(), classes: ['A', 'B'], perClass: 0 });
  teach(0);
});
byId('add-class').addEventListener('click', () => {
  const used = app.state.classes,
    next = [...'ABCDEFGHIJ'].find((name) => !used.includes(name)) ?? String(used.length);
  used.push(next);
  retrain();
  teach(used.length - 1);
});
byId('layer').addEventListener('input', () => showLayer(Number(byId('layer').value)));
byId('play').addEventListener('click', () => playFrom(1));
byId('trace').addEventListener('click', (/** @type {MouseEvent} */ event) => {
  const box = byId('trace').getBoundingClientRect(),
    count = app.outputs.length;
  const place = (((event.clientX - box.left) / box.width) * 420 - 8) / 364;
  showLayer(Math.max(1, Math.min(count, 1 + Math.round(place * (count - 1)))));
});
byId('share').addEventListener('click', async () => {
  history.replaceState(null, '', `#${writeState(app.state)}`);
  const left = app.state.drawn.length && !location.hash.includes('x=');
  try {
    await navigator.clipboard.writeText(location.href);
  } catch {
    /* the address bar has it too */
  }
  byId('share').textContent = left ? 'Copied without the drawings: too many' : 'Link copied';
  setTimeout(() => {
    byId('share').textContent = 'Copy link';
  }, 2500);
});
document.addEventListener('keydown', (event) => {
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    (event.target instanceof HTMLInputElement && event.target.type !== 'range')
  )
    return;
  if (event.key === 'n' || event.key === 'Delete') showQuestion(null, app.teach);
  else if (/^[0-9]$/.test(event.key) && Number(event.key) < app.state.classes.length && !model)
    teach(app.teach === Number(event.key) ? null : Number(event.key));
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  pad.paint();
  if (!model) retrain();
  else ask();
});
addEventListener('hashchange', () => {
  if (!model) restart(readState(location.hash.slice(1)));
});
byId('open').addEventListener('change', async () => {
  const file = byId('open').files[0];
  if (file && model) {
    pad.load(await inkOfFile(file, model.network));
    ask();
  }
});

if (model) showModel(model);
else {
  restart(app.state);
  setTimeout(warmUp, 300, 3);
}
Object.assign(globalThis, {
  playground: { app, pad, model, ask, readOut, trainNetwork, forward, batchOf, trainingSet, readPixels, data },
});
document.documentElement.dataset.ready = 'true';
