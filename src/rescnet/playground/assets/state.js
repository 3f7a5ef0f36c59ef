/**
 * What the user has chosen and drawn, and its form in the address after the #.
 * @typedef {{label: number, pixels: Uint8Array}} Example pixels are grey levels 0 to 16
 * @typedef {{classes: string[], perClass: number, removed: Set<number>, drawn: Example[], question: Uint8Array | null,
 *   truth: number | null, layer: number, stage: string, fit: boolean, config: Config}} State
 */
const LEVELS = '0123456789abcdefg',
  SIDE = 8,
  PIXELS = SIDE * SIDE,
  BUNDLED = 20,
  MOST_CLASSES = 10,
  LONGEST_LINK = 8000;
const DIGIT_NAMES = [...'0123456789'];

/** Sliders of the page: [option, short name in the address, label, least, most, step]. */
const SLIDERS = /** @type {[keyof Config, string, string, number, number, number][]} */ ([
  ['layers', 'L', 'Layers', 1, 12, 1],
  ['filters', 'f', 'Filters per layer', 4, 12, 2],
  ['learning_rate', 'a', 'Learning rate α', 0.05, 1, 0.05],
  ['ridge', 'g', 'Ridge γ', 0.1, 2, 0.1],
  ['ceiling', 'v', 'Ceiling λ', 0.1, 1, 0.1],
  ['seed', 's', 'Seed', 0, 20, 1],
]);

/** @param {string} text @returns {Uint8Array} */
const readPixels = (text) => Uint8Array.from(text, (level) => Math.max(0, LEVELS.indexOf(level)));
/** @param {Uint8Array} pixels */
const writePixels = (pixels) => Array.from(pixels, (level) => LEVELS[level]).join('');

/** The state of a page that opens with digits. @returns {State} */
function digitsState() {
  return {
    classes: DIGIT_NAMES.slice(),
    perClass: 5,
    removed: new Set(),
    drawn: [],
    question: null,
    truth: null,
    layer: 99,
    stage: 'filters',
    fit: true,
    config: { ...DEFAULT_CONFIG },
  };
}

/** @param {State} state @returns {string} the part of the address after the # */
function writeState(state) {
  const start = digitsState(),
    parts = new URLSearchParams();
  for (const [option, short] of SLIDERS) {
    if (state.config[option] !== start.config[option]) parts.set(short, String(state.config[option]));
  }
  if (state.perClass !== start.perClass) parts.set('n', String(state.perClass));
  if (state.classes.join() !== start.classes.join()) parts.set('c', JSON.stringify(state.classes));
  if (state.removed.size) parts.set('r', [...state.removed].join('.'));
  if (state.layer !== state.config.layers) parts.set('l', String(state.layer));
  if (state.stage !== start.stage) parts.set('stage', state.stage);
  if (!state.fit) parts.set('fit', '0');
  if (state.question) parts.set('q', writePixels(state.question) + (state.truth === null ? '' : state.truth));
  const drawn = state.drawn.map((example) => example.label + writePixels(example.pixels)).join('');
  if (drawn && parts.toString().length + drawn.length <= LONGEST_LINK) parts.set('x', drawn);
  return parts.toString();
}

/** Read an address; what is missing or wrong in it keeps its default. @param {string} text @returns {State} */
function readState(text) {
  const state = digitsState(),
    parts = new URLSearchParams(text);
  /** @param {string} name @param {number} least @param {number} most @param {number} otherwise */
  const number = (name, least, most, otherwise) => {
    const value = Number(parts.get(name) ?? NaN);
    return value >= least && value <= most ? value : otherwise;
  };
  for (const [option, short, , least, most, step] of SLIDERS) {
    const value = number(short, least, most, Number(state.config[option]));
    const places = Math.round((value - least) / step);
    Object.assign(state.config, { [option]: Number((least + places * step).toFixed(4)) });
  }
  state.perClass = Math.floor(number('n', 0, BUNDLED, state.perClass));
  state.layer = Math.floor(number('l', 1, state.config.layers, state.config.layers));
  state.fit = parts.get('fit') !== '0';
  state.stage = parts.get('stage') ?? state.stage;
  try {
    const names = JSON.parse(parts.get('c') ?? '[]');
    if (Array.isArray(names) && names.length >= 2 && names.length <= MOST_CLASSES) state.classes = names.map(String);
  } catch {
    /* an address cut short: the digits' names stay */
  }
  if (parts.get('r')) state.removed = new Set(String(parts.get('r')).split('.').map(Number));
  for (const [, label, pixels] of (parts.get('x') ?? '').matchAll(/(\d)([0-9a-g]{64})/g)) {
    if (Number(label) < state.classes.length) state.drawn.push({ label: Number(label), pixels: readPixels(pixels) });
  }
  const question = /^([0-9a-g]{64})(\d?)$/.exec(parts.get('q') ?? '');
  if (question) {
    state.question = readPixels(question[1]);
    state.truth = question[2] && Number(question[2]) < state.classes.length ? Number(question[2]) : null;
  }
  return state;
}

/**
 * The training set: bundled digits that were not removed, then drawings. `bundled` is the number of a digit, or -1.
 * @param {State} state @param {{train: string[][]}} digits @returns {(Example & {bundled: number})[]}
 */
function trainingSet(state, digits) {
  const chosen = digits.train
    .slice(0, state.classes.length)
    .flatMap((texts, label) =>
      texts
        .slice(0, state.perClass)
        .map((text, i) => ({ label, pixels: readPixels(text), bundled: label * BUNDLED + i })),
    );
  return [
    ...chosen.filter((example) => !state.removed.has(example.bundled)),
    ...state.drawn.map((example) => ({ ...example, bundled: -1 })),
  ];
}

/** @param {Uint8Array[]} images of 8×8 pixels @returns {Batch} */
function batchOf(images) {
  const batch = emptyBatch(images.length, 1, SIDE, SIDE);
  images.forEach((pixels, i) => batch.data.set(pixels, i * PIXELS));
  return batch;
}
