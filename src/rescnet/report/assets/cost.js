// Seconds per stage and layer, peak memory, and a table of totals.
const STAGE_COLOURS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#c9b800', '#8c8c8c'];

function cost() {
  const { stages, memory, retries, ridge } = DATA.training;
  if (!stages.length) {
    byId('cost-words').append('The model has no training record.');
    byId('cost-figure').hidden = true;
    return;
  }
  const total = stages.reduce((sum, stage) => sum + stage.total, 0);
  const layers =
    retries
      .slice(0, 12)
      .map(([layer]) => layer)
      .join(', ') + (retries.length > 12 ? ', …' : '');
  const largest = Math.max(...retries.map(([, increased]) => increased));
  addText(
    'cost-words',
    `${plural(LAYERS, 'layer')} took ${seconds(total)}, on average ${seconds(total / LAYERS)} per layer.`,
    DATA.summary.seconds.readout && `The readout took ${seconds(DATA.summary.seconds.readout)}.`,
    DATA.summary.time && `Together: ${DATA.summary.time}.`,
    `The slowest stage is ${stages[0].name} (${percent(stages[0].total / total, 0)}).`,
    `Peak memory is ${megabytes(Math.max(...memory))}.`,
    !retries.length && `The ridge of ${ridge} was sufficient for every layer.`,
    retries.length && `The ridge of ${ridge} was increased, up to ${largest}, to factorise the scatter matrix`,
    retries.length && `of ${retries.length === 1 ? 'layer' : 'layers'} ${layers}.`,
  );
  const colour = (i) => STAGE_COLOURS[Math.min(i, STAGE_COLOURS.length - 1)];
  byId('cost-legend').append(
    ...stages.map((stage, i) => node('span', null, node('i', { style: { background: colour(i) } }), stage.name)),
  );
  const perLayer = Array.from({ length: LAYERS }, (_, i) => stages.reduce((sum, stage) => sum + stage.seconds[i], 0));
  drawing(() => {
    const times = layerChart(byId('cost-plot'), {
      height: 220,
      low: 0,
      high: Math.max(...perLayer) * 1.05 || 1,
      text: tickSeconds,
      label: 'Seconds per stage and layer',
      axis: false,
    });
    bars(
      times,
      stages.map((stage) => stage.seconds),
      stages.map((_, i) => colour(i)),
    );
    const held = layerChart(byId('memory-plot'), {
      height: 120,
      low: 0,
      high: Math.max(...memory) * 1.1 || 1,
      text: (value) => (value ? megabytes(value) : '0'),
      label: 'Peak memory per layer',
      rows: 4,
    });
    line(
      held,
      memory.map((_, i) => i + 1),
      memory,
      'var(--mark)',
      { dots: LAYERS <= 30 },
    );
    hover(byId('cost-figure'), [times, held], (layer) => [
      `layer ${layer}: ${seconds(perLayer[layer - 1])}, ${megabytes(memory[layer - 1])}`,
      stages.map((stage, i) => [colour(i), stage.name, seconds(stage.seconds[layer - 1])]),
    ]);
  });
  byId('cost-table').append(
    table(
      ['stage', 'total', 'share', 'peak memory', 'task'],
      stages.map((stage) => [
        stage.name,
        seconds(stage.total),
        percent(stage.total / total, 1),
        stage.memory ? megabytes(stage.memory) : '–',
        stage.meaning,
      ]),
      [1, 2, 3],
    ),
  );
}
