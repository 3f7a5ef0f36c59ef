/** Teaching: examples of each class, the class that strokes are learned as, and questions from held-out digits. */

/** The classes as buttons: a chosen one is taught by each stroke. */
function drawTeaching() {
  const chips = app.state.classes.map((name, label) => {
    const chip = make('button', { 'aria-pressed': String(app.teach === label), title: `Key ${label}` }, name || '·');
    chip.addEventListener('click', () => teach(app.teach === label ? null : label));
    return chip;
  });
  byId('chips').replaceChildren(...chips);
  byId('teach-hint').textContent =
    app.teach === null
      ? 'No class is chosen: a drawing is a question.'
      : `Each stroke is learned as “${app.state.classes[app.teach]}”. New drawing begins another example.`;
  byId('pad-size').textContent = `${pad.h}×${pad.w}`;
  paintTiles(byId('seen'), [pad.ink().subarray(0, pad.h * pad.w)], pad.w, 1, 'ink', 32 / pad.w, 1);
}

/** @param {(Example & {bundled: number})[]} examples */
function drawExamples(examples) {
  const rows = app.state.classes.map((name, label) => {
    const input = /** @type {HTMLInputElement} */ (
      make('input', { value: name, maxlength: '12', 'aria-label': `Name of class ${label + 1}` })
    );
    input.addEventListener('change', () => {
      app.state.classes[label] = input.value.trim() || String(label);
      retrain();
    });
    const own = examples.filter((example) => example.label === label),
      zoom = own.length > 8 ? 2.5 : 3.4;
    const thumbnails = own.map((example) => {
      const button = make(
        'button',
        { title: 'Remove this example', class: example.bundled < 0 ? 'drawn' : '' },
        picture([example.pixels], SIDE, 1, 'ink', zoom, 16),
      );
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

/** Learn the drawing as an example of the chosen class. */
function learnDrawing() {
  if (app.teach === null || pad.isEmpty) return;
  if (app.current) Object.assign(app.current, { label: app.teach, pixels: padPixels() });
  else app.state.drawn.push((app.current = { label: app.teach, pixels: padPixels() }));
  app.state.truth = app.teach;
  retrain();
}

/**
 * Choose the class that strokes are learned as; null: none. A question on the pad is learned at once. An example that
 * was learned stays, and the pad is emptied for the next.
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
  const all = data.digits.test.flatMap((/** @type {string[]} */ texts, /** @type {number} */ label) =>
    texts.map((text) => ({ text, label })),
  );
  app.teach = null;
  for (let tries = 0; tries < all.length; tries++) {
    const { text, label } = all[(heldOutTurn = (heldOutTurn + 37) % all.length)],
      pixels = readPixels(text);
    if (corrected && app.network) {
      const steps = forward(app.network, batchOf([pixels])),
        own = app.present.indexOf(label);
      if (argmax(steps[0].output) === own || argmax(steps[steps.length - 1].output) !== own) continue;
    }
    return showQuestion(pixels, label);
  }
  byId('story').textContent = 'No held-out digit is corrected by these layers.';
}
