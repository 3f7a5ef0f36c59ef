// Small drawings of the stages of a layer.
function scaleArt(n) {
  const end = (value) =>
    Math.abs(value) >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toPrecision(2);
  const svg = shape('svg', {
    viewBox: '0 0 190 48',
    role: 'img',
    'aria-label': `from ${end(n.low)} … ${end(n.high)} to 0 … 1`,
  });
  for (let i = 0; i < 12; i += 1)
    svg.append(shape('rect', { x: i * 15.6, y: 16, width: 15.8, height: 14, fill: `hsl(0 0% ${8 + i * 8}%)` }));
  svg.append(
    shape('text', { x: 0, y: 11 }, end(n.low)),
    shape('text', { x: 187, y: 11, 'text-anchor': 'end' }, end(n.high)),
    shape('text', { x: 0, y: 44, class: 'strong' }, '0'),
    shape('text', { x: 187, y: 44, 'text-anchor': 'end', class: 'strong' }, '1'),
  );
  return svg;
}

function filterArt(picture) {
  const first = DATA.filters.find((layer) => layer.as_image);
  const each = first ? first.groups.map((group) => group.tiles.slice(0, first.groups.length > 1 ? 2 : 3)) : [];
  return each
    .flat()
    .slice(0, 3)
    .map((tile) => picture(tile.picture, `${tile.caption} of layer 1`));
}

// A linear discriminant: two clouds of points and the line between them.
function discriminantArt() {
  const svg = shape('svg', {
    viewBox: '0 0 190 62',
    role: 'img',
    'aria-label': 'a line between the images of one class and all others',
  });
  for (let i = 0; i < 26; i += 1) {
    const [angle, away] = [i * 2.4, 5.2 * Math.sqrt((i % 13) + 0.5)];
    const own = i < 13;
    svg.append(
      shape('circle', {
        cx: (own ? 56 : 132) + 1.9 * away * Math.cos(angle),
        cy: 31 + 1.3 * away * Math.sin(angle),
        r: 3,
        style: { fill: own ? 'var(--correct)' : 'none', stroke: own ? 'none' : 'var(--wrong)', 'stroke-width': 1.6 },
      }),
    );
  }
  svg.append(shape('line', { x1: 104, y1: 1, x2: 84, y2: 61, style: { stroke: 'var(--ink)', 'stroke-width': 1.8 } }));
  return svg;
}

function pyramidArt(levels) {
  const side = 52;
  const svg = shape('svg', {
    viewBox: `0 0 ${levels.length * (side + 10)} ${side + 2}`,
    role: 'img',
    'aria-label': `pyramid with ${levels.join(', ')} cells per side`,
    style: { 'max-width': `${levels.length * (side + 10)}px` },
  });
  levels.forEach((cells, i) => {
    for (let at = 0; at < cells * cells; at += 1) {
      svg.append(
        shape('rect', {
          x: i * (side + 10) + 1 + ((at % cells) * side) / cells,
          y: 1 + (Math.floor(at / cells) * side) / cells,
          width: side / cells - 1.5,
          height: side / cells - 1.5,
          rx: 2,
          style: { fill: 'var(--faint)', stroke: 'var(--correct)' },
        }),
      );
    }
  });
  return svg;
}

// Outputs after layer 1 (bars) and targets (ticks) of the classes with the largest residuals.
function correctionArt(example) {
  const order = example.residual
    .map((value, c) => [Math.abs(value), c])
    .sort((a, b) => b[0] - a[0])
    .slice(0, 5)
    .map(([, c]) => c);
  const [width, row] = [220, 16];
  const most = Math.max(DATA.layer.ceiling, ...example.outputs.map(Math.abs));
  const x = (value) => 82 + (Math.max(0, value) / most) * (width - 88);
  const svg = shape('svg', {
    viewBox: `0 0 ${width} ${order.length * row + 14}`,
    role: 'img',
    'aria-label': 'outputs after layer 1 and their targets',
  });
  order.forEach((c, i) => {
    const target = c === example.label ? DATA.layer.ceiling : 0;
    const name = shortened(NAMES[c], 11);
    const strong = c === example.label ? 'strong' : null;
    svg.append(
      shape('text', { x: 76, y: i * row + 12, 'text-anchor': 'end', class: strong }, name),
      shape('rect', {
        x: x(0),
        y: i * row + 3,
        width: Math.max(1, x(example.outputs[c]) - x(0)),
        height: 10,
        style: { fill: c === example.label ? 'var(--correct)' : 'var(--quiet)' },
      }),
      shape('line', {
        x1: x(target),
        x2: x(target),
        y1: i * row,
        y2: i * row + 16,
        style: { stroke: 'var(--mark)', 'stroke-width': 2 },
      }),
    );
  });
  svg.append(
    shape('text', { x: 82, y: order.length * row + 11, style: { 'font-size': '10px' } }, 'bar: output, line: target'),
  );
  return svg;
}
