// Confusion matrix after a chosen layer: a table for few classes, else a heat map and the most confused pairs.
const MAX_TABLE = 20; // classes

function confusion() {
  const { evaluation } = DATA;
  if (!evaluation) {
    addText('confusion-lede', NEEDS_IMAGES);
    byId('confusion-body').hidden = true;
    return;
  }
  const matrices = evaluation.confusions;
  addText(
    'confusion-lede',
    `True class (rows) and prediction (columns) of ${count(evaluation.images)} ${evaluation.split} images.`,
    'Blue is correct, orange is wrong; a stronger colour means more images.',
    matrices.length > 1 && 'Move the slider to see other depths.',
  );
  const start = matrices.findLastIndex(({ layer }) => layer === DATA.summary.used); // the readout comes last
  if (matrices.length > 1) {
    const depth = node('output', null);
    const slider = node('input', {
      type: 'range',
      min: 0,
      max: matrices.length - 1,
      value: start,
      'aria-label': 'layers',
    });
    const show = () => {
      const { layer, readout } = matrices[slider.value];
      const last = layer === LAYERS ? ', the last' : '';
      const best = layer === DATA.summary.best_depth ? ', the best validation depth' : '';
      depth.textContent = readout ? 'with the kernel readout' : `after layer ${layer}${last}${best}`;
      slider.setAttribute('aria-valuetext', depth.textContent);
      showConfusion(matrices[slider.value]);
    };
    slider.addEventListener('input', show);
    byId('confusion-depth').append(slider, depth);
    show();
  } else {
    showConfusion(matrices[0]);
  }
}

function showConfusion(matrix) {
  const size = NAMES.length;
  const rows = NAMES.map((_, c) => matrix.counts.slice(c * size, (c + 1) * size));
  const totals = rows.map((row) => row.reduce((sum, value) => sum + value, 0));
  byId('confusion-plot').replaceChildren(size <= MAX_TABLE ? matrixTable(rows, totals) : heatMap(rows, totals));
  byId('class-accuracy').replaceChildren(...classAccuracy(rows, totals));
}

function showCellTip(event, rows, totals, t, p) {
  showTip(event.clientX, event.clientY, t === p ? `${NAMES[t]}, correct` : `${NAMES[t]} predicted as ${NAMES[p]}`, [
    [null, 'images', count(rows[t][p])],
    [null, `of all ${NAMES[t]}`, totals[t] ? percent(rows[t][p] / totals[t], 1) : '–'],
  ]);
}

function matrixTable(rows, totals) {
  const most = Math.max(1, ...rows.flatMap((row, t) => row.filter((_, p) => p !== t)));
  const cell = (value, t, p) => {
    const share = totals[t] ? value / totals[t] : 0;
    const colour = t === p ? 'var(--correct)' : 'var(--wrong)';
    const strength = t === p ? share : Math.sqrt(value / most) * 0.85;
    const td = node(
      'td',
      {
        class: value ? null : 'zero',
        style: {
          background: `color-mix(in srgb, ${colour} ${Math.round(100 * strength)}%, var(--panel))`,
          color: strength > 0.68 ? 'var(--panel)' : null,
        },
      },
      value ? count(value) : '·',
    );
    td.addEventListener('pointermove', (event) => showCellTip(event, rows, totals, t, p));
    td.addEventListener('pointerleave', hideTip);
    return td;
  };
  const made = node(
    'table',
    { class: NAMES.every((name) => name.length <= 3) ? 'matrix short' : 'matrix' },
    node(
      'thead',
      null,
      node(
        'tr',
        null,
        node('th', { scope: 'col' }, 'true ↓  predicted →'),
        NAMES.map((name) => node('th', { scope: 'col', title: name }, node('span', null, name))),
      ),
    ),
    node(
      'tbody',
      null,
      rows.map((row, t) =>
        node(
          'tr',
          null,
          node('th', { scope: 'row', title: NAMES[t] }, NAMES[t]),
          row.map((value, p) => cell(value, t, p)),
        ),
      ),
    ),
  );
  return node('div', { class: 'scroll' }, made);
}

function heatMap(rows, totals) {
  const size = rows.length;
  const canvas = node('canvas', {
    width: size,
    height: size,
    role: 'img',
    'aria-label': `Confusion matrix of ${size} classes; the most confused pairs are in the next table`,
  });
  const paint = canvas.getContext('2d');
  const most = Math.max(1, ...rows.flatMap((row, t) => row.filter((_, p) => p !== t)));
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const [correct, wrong] = [colour('--correct'), colour('--wrong')];
  rows.forEach((row, t) =>
    row.forEach((value, p) => {
      if (!value) return;
      paint.globalAlpha = t === p ? value / totals[t] : 0.15 + 0.85 * Math.sqrt(value / most);
      paint.fillStyle = t === p ? correct : wrong;
      paint.fillRect(p, t, 1, 1);
    }),
  );
  canvas.addEventListener('pointermove', (event) => {
    const box = canvas.getBoundingClientRect();
    const [p, t] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height].map((at) =>
      Math.max(0, Math.min(size - 1, Math.floor(at * size))),
    );
    showCellTip(event, rows, totals, t, p);
  });
  canvas.addEventListener('pointerleave', hideTip);
  const pairs = rows
    .flatMap((row, t) => row.map((value, p) => [value, t, p]))
    .filter(([value, t, p]) => value && t !== p)
    .sort((a, b) => b[0] - a[0])
    .slice(0, 15);
  return node(
    'div',
    { class: 'heat' },
    canvas,
    node(
      'div',
      null,
      node('h3', { style: { 'margin-top': '0' } }, 'Most confused pairs'),
      table(
        ['true', 'predicted', 'images', 'share'],
        pairs.map(([value, t, p]) => [NAMES[t], NAMES[p], count(value), percent(value / totals[t], 0)]),
        [2, 3],
      ),
    ),
  );
}

function classAccuracy(rows, totals) {
  const known = NAMES.map((_, c) => c).filter((c) => totals[c]);
  const shares = new Map(known.map((c) => [c, rows[c][c] / totals[c]]));
  const order = known.sort((a, b) => shares.get(a) - shares.get(b));
  const list = (chosen) =>
    node(
      'div',
      { class: 'bars' },
      chosen.flatMap((c) => [
        node('span', { title: NAMES[c] }, NAMES[c]),
        node('div', null, node('i', { style: { width: percent(shares.get(c)).replace(' ', '') } })),
        node('span', null, `${percent(shares.get(c), 1)} of ${count(totals[c])}`),
      ]),
    );
  if (order.length <= MAX_TABLE) return [node('h3', null, 'Accuracy per class, lowest first'), list(order)];
  return [
    node('h3', null, 'Ten lowest accuracies'),
    list(order.slice(0, 10)),
    node('h3', null, 'Ten highest accuracies'),
    list(order.slice(-10).reverse()),
    node('details', null, node('summary', null, `All ${order.length} classes`), list(order)),
  ];
}
