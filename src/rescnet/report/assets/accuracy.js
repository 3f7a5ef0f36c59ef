// Accuracy by layer, what each layer changed, and the share of positive signs, one under the other.
const SPLITS = [
  ['train', 'training', 'var(--train)', '6 4'],
  ['validation', 'validation', 'var(--validation)', '2 3'],
  ['test', 'test', 'var(--test)', undefined],
];

const besides = (holder) => (narrow(holder) ? 78 : 128); // room for words at the lines' ends

function accuracy() {
  const { curves, evaluation, headline: first } = DATA;
  const followed = SPLITS.filter(([key]) => curves[key]);
  const main = curves.test ? 'test' : curves.validation ? 'validation' : 'train';
  const name = Object.fromEntries(SPLITS)[main];
  const curve = curves[main];
  if (curve) {
    const best = curve.indexOf(Math.max(...curve)) + 1;
    const looked = main === 'test' && best !== first.chosen;
    say(
      'accuracy-words',
      LAYERS === 1 && `One layer: ${percent(curve[0])} of ${name} images are right.`,
      LAYERS > 1 && `Layer 1 alone gets ${percent(curve[0])} of the ${name} images right;`,
      LAYERS > 1 && `after layer ${LAYERS} it is ${percent(curve[LAYERS - 1])}.`,
      first.chosen && `Layer ${first.chosen} did best on validation images, so that depth is the one to choose.`,
      first.chosen && looked && `(On test images layer ${best} did best, but a choice must not be made on them.)`,
      !first.chosen && 'No validation images were followed, so the last layer stands.',
    );
  }
  if (!followed.length) {
    byId('accuracy-words').append(
      'The model has no record of its training: write the page with a dataset to see accuracy by layer.',
    );
    byId('accuracy-plot').hidden = true;
    byId('accuracy-table').hidden = true;
  }
  const all = Array.from({ length: LAYERS }, (_, i) => i + 1);
  byId('changes-block').hidden = !evaluation;
  if (evaluation)
    byId('changes-words').append(
      `${evaluation.split === 'test' ? 'Test' : 'Validation'} images each layer turned right (up, blue) `,
      'and turned wrong (down, orange)',
    );
  byId('signs-words').append(
    'Signs: before each layer, the share of training images whose largest error is an output too low ',
    '(blue, positive) or too high (orange, negative)',
  );
  drawing(() => {
    const charts = followed.length ? [accuracyChart(byId('accuracy-plot'), followed, all)] : [];
    if (evaluation) charts.push(changesChart(byId('changes-plot'), evaluation.changes));
    charts.push(signsChart(byId('signs-plot')));
    hover(byId('accuracy-figure'), charts, (layer) => [
      `layer ${layer}`,
      [
        ...followed.map(([key, words, colour]) => [colour, words, percent(curves[key][layer - 1])]),
        ...(evaluation
          ? [
              ['var(--right)', 'turned right', layer === 1 ? '–' : count(evaluation.changes.right[layer - 1])],
              ['var(--wrong)', 'turned wrong', layer === 1 ? '–' : count(evaluation.changes.wrong[layer - 1])],
            ]
          : []),
        [null, 'positive signs', percent(DATA.run.positive[layer - 1], 0)],
        [null, 'step α', String(DATA.run.rate[layer - 1])],
      ],
    ]);
  });
  const details = byId('accuracy-table');
  details.addEventListener('toggle', () => {
    const holder = details.querySelector('div');
    if (!holder.childNodes.length)
      holder.append(
        table(
          ['layer', ...followed.map(([, words]) => `${words} %`), 'positive signs %', 'α'],
          all.map((layer) => [
            String(layer),
            ...followed.map(([key]) => (100 * curves[key][layer - 1]).toFixed(2)),
            (100 * DATA.run.positive[layer - 1]).toFixed(1),
            String(DATA.run.rate[layer - 1]),
          ]),
          [0, 1, 2, 3, 4, 5],
        ),
      );
  });
}

function accuracyChart(holder, followed, all) {
  const values = followed.flatMap(([key]) => DATA.curves[key]);
  const most = Math.max(...values, 0.01);
  const least = Math.min(...values, most - 0.01);
  const pad = 0.06 * (most - least);
  const atEnd = followed.map(([key, words]) => `${words} ${percent(DATA.curves[key][LAYERS - 1])}`);
  const digits = most - least < 0.03 ? 1 : 0;
  const chart = layerChart(holder, {
    height: 300,
    low: Math.max(0, least - pad),
    high: Math.min(1, most + pad),
    text: (value) => percent(value, digits),
    label: `Accuracy by layer; at the end: ${atEnd.join(', ')}`,
    right: besides(holder),
    rows: 5,
    top: 24,
  });
  if (DATA.headline.chosen)
    layerMark(chart, DATA.headline.chosen, `layer ${DATA.headline.chosen}: best on validation images`);
  for (const [key, , colour, dash] of followed)
    line(chart, all, DATA.curves[key], colour, { width: key === 'train' ? 1.6 : 2.4, dash, dots: LAYERS <= 30 });
  endLabels(
    chart,
    followed.map(([key, words, colour]) => ({
      at: DATA.curves[key][LAYERS - 1],
      words: narrow(holder) ? words : `${words} ${percent(DATA.curves[key][LAYERS - 1], 1)}`,
      colour,
      strong: true,
    })),
  );
  return chart;
}

function changesChart(holder, changes) {
  const up = changes.right.map((value, i) => (i ? value : 0)); // layer 1 turns everything: it would dwarf the rest
  const down = changes.wrong.map((value) => -value);
  const [high, low] = [Math.max(1, ...up), Math.min(-1, ...down)];
  const chart = layerChart(holder, {
    height: 120,
    low,
    high,
    text: (value) => (Number.isInteger(value) ? count(Math.abs(value)) : ''),
    label: 'Images turned right and turned wrong by each layer',
    right: besides(holder),
    axis: false,
    rows: 4,
  });
  bars(chart, [up, down], ['var(--right)', 'var(--wrong)']);
  return chart;
}

function signsChart(holder) {
  const { positive } = DATA.run;
  const chart = layerChart(holder, {
    height: 82,
    low: 0,
    high: 1,
    text: (value) => percent(value, 0),
    label: 'Share of positive signs by layer',
    right: besides(holder),
    rows: 2,
  });
  bars(chart, [positive, positive.map((share) => 1 - share)], ['var(--right)', 'var(--wrong)']);
  return chart;
}
