// Accuracy per layer, images changed by each layer, and the share of positive signs, as stacked charts.
const SPLITS = [
  ['train', 'training', 'var(--train)', '6 4'],
  ['validation', 'validation', 'var(--validation)', '2 3'],
  ['test', 'test', 'var(--test)', undefined],
];

const labelWidth = (holder) => (narrow(holder) ? 78 : 128); // room for labels at the ends of lines

function accuracy() {
  const { curves, evaluation } = DATA;
  const bestDepth = DATA.summary.best_depth;
  const recorded = SPLITS.filter(([key]) => curves[key]);
  const main = curves.test ? 'test' : curves.validation ? 'validation' : 'train';
  const name = Object.fromEntries(SPLITS)[main];
  const curve = curves[main];
  if (curve) {
    const best = curve.indexOf(Math.max(...curve)) + 1;
    const differs = main === 'test' && best !== bestDepth;
    addText(
      'accuracy-words',
      LAYERS === 1 && `One layer classifies ${percent(curve[0])} of the ${name} images correctly.`,
      LAYERS > 1 && `Layer 1 alone classifies ${percent(curve[0])} of the ${name} images correctly,`,
      LAYERS > 1 && `all ${LAYERS} layers ${percent(curve[LAYERS - 1])}.`,
      bestDepth && `The best validation depth is ${plural(bestDepth, 'layer')}.`,
      bestDepth && differs && `(The best test depth is ${best}, but depth must not be chosen on test images.)`,
      `Predictions use ${DATA.summary.used === LAYERS ? 'all layers' : `the first ${DATA.summary.used}`}.`,
      evaluation && `The most frequent class has ${percent(evaluation.majority, 1)} of the images.`,
      DATA.intervals[main] && 'The band is the 95 % interval.',
    );
  }
  if (!recorded.length) {
    byId('accuracy-words').append(
      'The model has no training record. Give a data set to see the accuracy per layer.',
    );
    byId('accuracy-plot').hidden = true;
    byId('accuracy-table').hidden = true;
  }
  const all = Array.from({ length: LAYERS }, (_, i) => i + 1);
  byId('changes-block').hidden = !evaluation;
  if (evaluation)
    byId('changes-words').append(
      `${evaluation.split === 'test' ? 'Test' : 'Validation'} images that become correct (up, blue) `,
      'or wrong (down, orange) in each layer',
    );
  byId('signs-words').append(
    'Signs: share of training images whose largest residual is positive (blue, output too low) ',
    'or negative (orange, output too high), before each layer',
  );
  const changed = (kind, layer) => (layer === 1 ? '–' : count(evaluation.changes[kind][layer - 1]));
  drawing(() => {
    const charts = recorded.length ? [accuracyChart(byId('accuracy-plot'), recorded, all)] : [];
    if (evaluation) charts.push(changesChart(byId('changes-plot'), evaluation.changes));
    charts.push(signsChart(byId('signs-plot')));
    hover(byId('accuracy-figure'), charts, (layer) => [
      `layer ${layer}`,
      [
        ...recorded.map(([key, words, colour]) => [
          colour,
          words,
          percent(curves[key][layer - 1]) + intervalAt(key, layer).replace('95 % interval ', ''),
        ]),
        ...(evaluation
          ? [
              ['var(--correct)', 'become correct', changed('corrected', layer)],
              ['var(--wrong)', 'become wrong', changed('newly_wrong', layer)],
            ]
          : []),
        [null, 'positive signs', percent(DATA.training.positive[layer - 1], 0)],
        [null, 'step α', String(DATA.training.rate[layer - 1])],
      ],
    ]);
  });
  const details = byId('accuracy-table');
  details.addEventListener('toggle', () => {
    const holder = details.querySelector('div');
    if (!holder.childNodes.length)
      holder.append(
        table(
          [
            'layer',
            ...recorded.map(([key, words]) => `${words} %${DATA.intervals[key] ? ' (95 % interval)' : ''}`),
            'positive signs %',
            'α',
          ],
          all.map((layer) => [
            String(layer),
            ...recorded.map(([key]) => {
              const ends = DATA.intervals[key]?.[layer - 1].map((end) => (100 * end).toFixed(1));
              return (100 * curves[key][layer - 1]).toFixed(2) + (ends ? ` (${ends.join(' to ')})` : '');
            }),
            (100 * DATA.training.positive[layer - 1]).toFixed(1),
            String(DATA.training.rate[layer - 1]),
          ]),
          [0, 1, 2, 3, 4, 5],
        ),
      );
  });
}

function accuracyChart(holder, recorded, all) {
  const banded = DATA.intervals.test ? 'test' : 'validation';
  const band = DATA.intervals[banded] || [];
  const values = [...recorded.flatMap(([key]) => DATA.curves[key]), ...band.flat()];
  const most = Math.max(...values, 0.01);
  const least = Math.min(...values, most - 0.01);
  const pad = 0.06 * (most - least);
  const atEnd = recorded.map(([key, words]) => `${words} ${percent(DATA.curves[key][LAYERS - 1])}`);
  const digits = most - least < 0.03 ? 1 : 0;
  const chart = layerChart(holder, {
    height: 300,
    low: Math.max(0, least - pad),
    high: Math.min(1, most + pad),
    text: (value) => percent(value, digits),
    label: `Accuracy per layer; after the last: ${atEnd.join(', ')}`,
    right: labelWidth(holder),
    rows: 5,
    top: 24,
  });
  if (band.length) {
    const upper = band.map(([, high], i) => `${chart.x(i + 1).toFixed(1)},${chart.y(high).toFixed(1)}`);
    const lower = band.map(([low], i) => `${chart.x(i + 1).toFixed(1)},${chart.y(low).toFixed(1)}`);
    const points = [...upper, ...lower.reverse()].join(' ');
    chart.svg.append(shape('polygon', { points, style: { fill: `var(--${banded})`, opacity: 0.13 } }));
  }
  if (DATA.summary.best_depth)
    layerMark(chart, DATA.summary.best_depth, `layer ${DATA.summary.best_depth}: best validation depth`);
  for (const [key, , colour, dash] of recorded)
    line(chart, all, DATA.curves[key], colour, { width: key === 'train' ? 1.6 : 2.4, dash, dots: LAYERS <= 30 });
  endLabels(
    chart,
    recorded.map(([key, words, colour]) => ({
      at: DATA.curves[key][LAYERS - 1],
      words: narrow(holder) ? words : `${words} ${percent(DATA.curves[key][LAYERS - 1], 1)}`,
      colour,
      strong: true,
    })),
  );
  return chart;
}

function changesChart(holder, changes) {
  const up = changes.corrected.map((value, i) => (i ? value : 0)); // without layer 1, which would dwarf the rest
  const down = changes.newly_wrong.map((value) => -value);
  const [high, low] = [Math.max(1, ...up), Math.min(-1, ...down)];
  const chart = layerChart(holder, {
    height: 120,
    low,
    high,
    text: (value) => (Number.isInteger(value) ? count(Math.abs(value)) : ''),
    label: 'Images that become correct and wrong in each layer',
    right: labelWidth(holder),
    axis: false,
    rows: 4,
  });
  bars(chart, [up, down], ['var(--correct)', 'var(--wrong)']);
  return chart;
}

function signsChart(holder) {
  const { positive } = DATA.training;
  const chart = layerChart(holder, {
    height: 82,
    low: 0,
    high: 1,
    text: (value) => percent(value, 0),
    label: 'Share of positive signs per layer',
    right: labelWidth(holder),
    rows: 2,
  });
  bars(chart, [positive, positive.map((share) => 1 - share)], ['var(--correct)', 'var(--wrong)']);
  return chart;
}
