// One image: the output of each class, the change of the margin, and the prediction, after each layer; and its map.
function trace() {
  const { evaluation } = DATA;
  if (!evaluation) {
    addText('trace-lede', NEEDS_IMAGES);
    byId('trace-body').hidden = true;
    return;
  }
  const { used } = DATA.summary;
  const depth = LAYERS === 1 ? 'the only layer' : used === LAYERS ? `all ${LAYERS} layers` : `the ${used} layers used`;
  const last = evaluation.readout ? `${depth} and the readout` : depth;
  addText(
    'trace-lede',
    `Layer 1 classifies ${count(evaluation.correct_first)} of ${count(evaluation.images)}`,
    `${evaluation.split} images correctly.`,
    `Later layers correct ${plural(evaluation.corrected, 'other')}` +
      ` and spoil ${count(evaluation.newly_wrong)} of those.`,
    `After ${last}, ${count(evaluation.correct_last)} are correct. Choose an image to see it layer by layer.`,
  );
  picker();
  onChoice.push(drawTrace);
  drawings.push(drawTrace);
  for (const input of document.querySelectorAll('input[name=view]')) input.addEventListener('change', drawTrace);
  const number = imageFromAddress();
  choose(number !== null && number < DATA.images.length ? number : 0, false);
}

// Views of the outputs of an image.
const VIEWS = {
  probabilities: {
    words: 'Probability of each class after each layer.',
    lines: (image) => image.probabilities,
    tick: (value) => percent(value, 0),
  },
  centred: {
    words: 'Output of each class after each layer, minus the mean over classes.',
    lines: (image) => image.outputs.map((line) => line.map((value, i) => value - image.mean[i])),
    tick: (value, fine) => minus(value, fine ? 2 : 1),
  },
  raw: {
    words: `Output of each class after each layer. Target: ${DATA.layer.ceiling} for the true class, 0 for the others.`,
    lines: (image) => image.outputs,
    tick: (value, fine) => minus(value, fine ? 2 : 1),
  },
};

function drawTrace() {
  const image = DATA.images[chosenImage];
  if (!image) return;
  const picture = byId('trace-image');
  picture.src = image.picture;
  picture.alt = `the chosen image: ${caption(image)}`;
  byId('trace-title').textContent = caption(image);
  byId('trace-changes').replaceChildren(
    ...image.changes.map(([verdict, words], i) =>
      node('li', { class: `${verdict}${i === image.changes.length - 1 ? ' last' : ''}` }, words),
    ),
  );
  byId('trace-map').replaceChildren(...mapOf(image));
  const view = VIEWS[document.querySelector('input[name=view]:checked').value];
  byId('trace-outputs-words').textContent = `${view.words} The highest line is the prediction.`;
  const colours = classColours(image);
  const charts = [outputsChart(image, view, colours), marginChart(image), runsChart(image, colours)];
  hover(byId('trace-figure'), charts, (layer) => traceTip(image, layer, colours));
  const figure = byId('trace-figure');
  figure.dataset.image = String(chosenImage);
}

// The pixels that speak for and against the prediction, as rescnet explain shows them.
function mapOf(image) {
  if (!image.map) return [node('p', { class: 'caption' }, 'To see its map: rescnet explain MODEL IMAGE.')];
  const name = NAMES[image.map.class];
  const most = Math.max(...image.map.sums.map(Math.abs)) || 1;
  const rows = ['pixels for it', 'pixels against it', 'intercept'].flatMap((words, i) => {
    const value = image.map.sums[i];
    const style = { width: `${(100 * Math.abs(value)) / most}%`, background: `var(--${value < 0 ? 'correct' : 'wrong'})` };
    return [node('span', null, words), node('div', null, node('i', { style })), node('span', null, signed(value, 3))];
  });
  const total = image.map.sums.reduce((sum, value) => sum + value, 0);
  const near = image.map.nearest.length ? `Nearest training images: ${image.map.nearest.join(', ')}.` : '';
  return [
    node('h3', null, `For and against ${name}`),
    node('img', { class: 'pixels', src: image.map.picture, alt: `pixels that speak for and against ${name}` }),
    node(
      'p',
      { class: 'caption' },
      `Orange pixels speak for ${name}, blue ones against it. Its output is ${minus(total, 3)}, the sum of:`,
    ),
    node('div', { class: 'bars' }, rows),
    near && node('p', { class: 'caption' }, near),
  ];
}

// Blue is the true class; predicted classes get a colour each, the others are grey.
function classColours(image) {
  const palette = ['var(--wrong)', 'var(--validation)', 'var(--third)', 'var(--fourth)'];
  const colours = new Map([[image.label, 'var(--correct)']]);
  const rivals = [...image.runs].reverse().map(([, c]) => c);
  const final = image.classes
    .map((c, i) => [image.outputs[i].at(-1), c])
    .sort((a, b) => b[0] - a[0])
    .slice(0, 2)
    .map(([, c]) => c);
  for (const c of [...rivals, ...final]) {
    if (!colours.has(c) && colours.size <= palette.length) colours.set(c, palette[colours.size - 1]);
  }
  return colours;
}

function outputsChart(image, view, colours) {
  const values = view.lines(image).map((line) => line.map((value) => value / UNIT));
  const flat = values.flat();
  const pad = 0.05 * (Math.max(...flat) - Math.min(...flat) || 1);
  const chart = layerChart(byId('trace-outputs'), {
    height: 290,
    low: Math.min(...flat, 0) - (view === VIEWS.probabilities ? 0 : pad),
    high: Math.max(...flat) + pad,
    text: (value) => view.tick(value, pad < 0.02),
    label: `${view.words} ${image.changes.map(([, words]) => words).join(' ')}`,
    right: traceLabelWidth(),
    axis: false,
    rows: 5,
  });
  for (const [i, [layer, now]] of image.runs.entries()) {
    if (i && image.runs.length <= 12 && [image.runs[i - 1][1], now].includes(image.label))
      layerMark(chart, layer, null, now === image.label ? 'var(--correct)' : 'var(--wrong)');
  }
  const order = image.classes
    .map((c, i) => [c, i])
    .sort((a, b) => colours.has(a[0]) - colours.has(b[0]) || (a[0] === image.label) - (b[0] === image.label));
  for (const [c, i] of order) {
    const known = colours.has(c);
    line(chart, image.layers, values[i], known ? colours.get(c) : 'var(--quiet)', {
      width: c === image.label ? 3.2 : known ? 2 : 1.1,
      dash: known && c !== image.label ? '7 3' : undefined,
      dots: known && LAYERS <= 30,
    });
  }
  endLabels(
    chart,
    order
      .filter(([c]) => colours.has(c))
      .map(([c, i]) => ({
        at: values[i].at(-1),
        words: shortened(NAMES[c], narrow(byId('trace-outputs')) ? 11 : 15),
        colour: colours.get(c),
        strong: c === image.label,
      })),
  );
  return chart;
}

function marginChart(image) {
  const changes = new Array(LAYERS).fill(0);
  image.layers.forEach((layer, i) => {
    const from = i ? image.layers[i - 1] : 0;
    const change = (image.margin[i] - (i ? image.margin[i - 1] : 0)) / UNIT;
    // Deep networks are sampled: the layers between two samples share the change.
    for (let at = from; at < layer; at += 1) changes[at] = change / (layer - from);
  });
  const most = Math.max(0.001, ...changes.map(Math.abs));
  const [high, low] = [Math.max(0.15 * most, ...changes), Math.min(-0.15 * most, ...changes)];
  const chart = layerChart(byId('trace-margin'), {
    height: 110,
    low,
    high,
    text: (value) => (Math.abs(value) < 1e-12 ? '0' : signed(value, most < 0.01 ? 3 : most < 0.1 ? 2 : 1)),
    label: 'Change of the margin of the true class per layer',
    right: traceLabelWidth(),
    axis: false,
    rows: 3,
  });
  bars(chart, [changes], (value) => (value >= 0 ? 'var(--correct)' : 'var(--wrong)'), 'sum');
  return chart;
}

function runsChart(image, colours) {
  const chart = layerChart(byId('trace-runs'), {
    height: 62,
    low: 0,
    high: 1,
    text: null,
    label: 'Prediction after each layer',
    right: traceLabelWidth(),
  });
  const half = chart.inner / LAYERS / 2;
  image.runs.forEach(([layer, c], i) => {
    const end = i + 1 < image.runs.length ? image.runs[i + 1][0] - 1 : LAYERS;
    const [x, width] = [chart.x(layer) - half, chart.x(end) - chart.x(layer) + 2 * half];
    const right = c === image.label;
    chart.svg.append(
      shape('rect', {
        x,
        y: chart.top,
        width: Math.max(0.5, width - 1),
        height: chart.bottom - chart.top,
        style: { fill: right ? 'var(--correct)' : colours.get(c) || 'var(--quiet)', opacity: right ? 0.9 : 0.75 },
      }),
    );
    if (width > 8 * NAMES[c].length + 8)
      chart.svg.append(
        shape(
          'text',
          {
            x: x + width / 2,
            y: chart.top + 15,
            'text-anchor': 'middle',
            style: { fill: 'var(--panel)', 'font-weight': 600 },
          },
          NAMES[c],
        ),
      );
  });
  return chart;
}

function traceTip(image, layer, colours) {
  let at = 0;
  while (at + 1 < image.layers.length && image.layers[at + 1] <= layer) at += 1;
  const rows = image.classes
    .map((c, i) => {
      const probability = percent(image.probabilities[i][at] / UNIT, 1);
      const [now, before] = [image.outputs[i][at], at ? image.outputs[i][at - 1] : 0];
      return [
        now,
        [
          colours.get(c) || 'var(--quiet)',
          c === image.label ? `${NAMES[c]} (true)` : NAMES[c],
          `${probability} · ${minus(now / UNIT, 3)} (${signed((now - before) / UNIT, 3)})`,
        ],
      ];
    })
    .sort((a, b) => b[0] - a[0])
    .slice(0, 6)
    .map(([, row]) => row);
  const since = at && image.layers[at] - image.layers[at - 1] > 1 ? `since layer ${image.layers[at - 1]}` : 'added';
  return [`after layer ${image.layers[at]}: probability · output (${since})`, rows];
}

const traceLabelWidth = () => (narrow(byId('trace-outputs')) ? 84 : 116);

function shortened(name, most) {
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}
