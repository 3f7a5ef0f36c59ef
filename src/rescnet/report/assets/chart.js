// Charts over layers: axes, lines, bars, labels without overlap, and one tooltip for stacked charts.
const LEFT = 52;
const narrow = (holder) => holder.clientWidth < 480;

function ticks(low, high, wanted) {
  const raw = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * step; at += 1) found.push(at * step);
  return found;
}

function layerTicks(layers, width) {
  const wanted = ticks(0, layers, Math.min(layers, Math.max(2, Math.floor(width / 70))));
  return [...new Set([1, ...wanted.map(Math.round)])].filter((layer) => layer >= 1 && layer <= layers);
}

// A frame with layers on the x axis; stacked charts are aligned.
function layerChart(holder, { height, low, high, text, label, right = 16, axis = true, rows = 4, top = 8 }) {
  const width = Math.max(260, holder.clientWidth || 600);
  const bottom = axis ? 34 : 6;
  const inner = width - LEFT - right;
  const x = (layer) => LEFT + (inner * (layer - 0.5)) / LAYERS;
  const y = (value) => top + (height - top - bottom) * (1 - (value - low) / (high - low || 1));
  const svg = shape('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label });
  if (text) {
    for (const value of ticks(low, high, rows)) {
      svg.append(
        shape('line', {
          x1: LEFT,
          x2: width - right,
          y1: y(value),
          y2: y(value),
          style: { stroke: Math.abs(value) < 1e-12 ? 'var(--quiet)' : 'var(--line)' },
        }),
        shape('text', { x: LEFT - 8, y: y(value) + 4, 'text-anchor': 'end' }, text(value)),
      );
    }
  }
  if (axis) {
    for (const layer of layerTicks(LAYERS, inner)) {
      svg.append(shape('text', { x: x(layer), y: height - 18, 'text-anchor': 'middle' }, String(layer)));
    }
    svg.append(shape('text', { x: LEFT + inner / 2, y: height - 3, 'text-anchor': 'middle' }, 'layer'));
  }
  holder.replaceChildren(svg);
  return { svg, x, y, width, height, inner, top, bottom: height - bottom, right: width - right };
}

function line(chart, layers, values, colour, { width = 2, dash, dots = false } = {}) {
  const path = layers
    .map((layer, i) => `${i ? 'L' : 'M'}${chart.x(layer).toFixed(1)} ${chart.y(values[i]).toFixed(1)}`)
    .join('');
  chart.svg.append(
    shape('path', {
      d: path,
      fill: 'none',
      'stroke-dasharray': dash,
      'stroke-linejoin': 'round',
      style: { stroke: colour, 'stroke-width': width },
    }),
  );
  if (dots || layers.length === 1) {
    layers.forEach((layer, i) =>
      chart.svg.append(
        shape('circle', { cx: chart.x(layer), cy: chart.y(values[i]), r: width + 0.6, style: { fill: colour } }),
      ),
    );
  }
}

// Labels at the right end of lines, moved apart if they overlap. Entries: {at, words, colour, strong}.
function endLabels(chart, entries, gap = 14) {
  const placed = entries.map((entry) => ({ ...entry, y: chart.y(entry.at) })).sort((a, b) => a.y - b.y);
  placed.forEach((entry, i) => {
    if (i) entry.y = Math.max(entry.y, placed[i - 1].y + gap);
  });
  const beyond = placed.length ? placed[placed.length - 1].y - chart.bottom : 0;
  if (beyond > 0) {
    placed[placed.length - 1].y -= beyond;
    for (let i = placed.length - 2; i >= 0; i -= 1) placed[i].y = Math.min(placed[i].y, placed[i + 1].y - gap);
  }
  for (const { y, words, colour, strong } of placed) {
    chart.svg.append(
      shape(
        'text',
        { x: chart.right + 7, y: y + 4, style: { fill: colour, 'font-weight': strong ? 700 : 400 } },
        words,
      ),
    );
  }
}

// Bars over layers. If there are more layers than room for bars, neighbours are merged.
function bars(chart, series, colours, merge = 'mean') {
  const merged = Math.max(1, Math.ceil((LAYERS * 3) / chart.inner));
  const wide = chart.inner / LAYERS;
  for (let start = 0; start < LAYERS; start += merged) {
    const end = Math.min(LAYERS, start + merged);
    let up = 0;
    let down = 0;
    series.forEach((values, i) => {
      const sum = values.slice(start, end).reduce((total, value) => total + value, 0);
      const value = merge === 'mean' ? sum / (end - start) : sum;
      const from = value >= 0 ? up : down;
      if (value >= 0) up += value;
      else down += value;
      const [high, low] = [chart.y(Math.max(from, from + value)), chart.y(Math.min(from, from + value))];
      const space = Math.min(2, wide * merged * 0.15);
      const colour = typeof colours === 'function' ? colours(value, i) : colours[i];
      chart.svg.append(
        shape('rect', {
          x: chart.x(start + 0.5 + 0.5) - wide / 2 + space / 2,
          y: high,
          width: Math.max(0.5, wide * (end - start) - space),
          height: Math.max(0, low - high),
          style: { fill: colour },
        }),
      );
    });
  }
}

function layerMark(chart, layer, words, colour = 'var(--mark)') {
  const x = chart.x(layer);
  chart.svg.append(
    shape('line', {
      x1: x,
      x2: x,
      y1: chart.top,
      y2: chart.bottom,
      'stroke-dasharray': '4 3',
      style: { stroke: colour, 'stroke-width': 1.5 },
    }),
  );
  if (!words) return;
  const half = 3.5 * words.length; // estimate, keeps the words inside the chart
  chart.svg.append(
    shape(
      'text',
      {
        x: Math.max(half, Math.min(chart.width - half, x)),
        y: chart.top - 8,
        'text-anchor': 'middle',
        style: { fill: colour },
      },
      words,
    ),
  );
}

// One tooltip for stacked charts, moved by pointer or arrow keys. rows(layer) returns its title and rows.
const hovers = new Map();
function hover(figure, charts, rows) {
  const rules = charts.map((chart) => {
    const rule = shape('line', {
      y1: chart.top,
      y2: chart.bottom,
      style: { stroke: 'var(--ink)', 'stroke-width': 1, opacity: 0.55 },
      visibility: 'hidden',
    });
    const cover = shape('rect', { x: LEFT, y: 0, width: chart.inner, height: chart.height, fill: 'transparent' });
    chart.svg.append(rule, cover);
    cover.addEventListener('pointermove', (event) => {
      const box = chart.svg.getBoundingClientRect();
      const at = ((event.clientX - box.left) * chart.width) / box.width;
      show(Math.round(((at - LEFT) / chart.inner) * LAYERS + 0.5), event.clientX, event.clientY);
    });
    cover.addEventListener('pointerleave', hide);
    return rule;
  });
  let current = LAYERS;
  function show(layer, clientX, clientY) {
    current = Math.max(1, Math.min(LAYERS, layer));
    rules.forEach((rule, i) => {
      rule.setAttribute('x1', charts[i].x(current));
      rule.setAttribute('x2', charts[i].x(current));
      rule.setAttribute('visibility', 'visible');
    });
    const [title, lines] = rows(current);
    const box = charts[0].svg.getBoundingClientRect();
    showTip(
      clientX ?? box.left + (charts[0].x(current) * box.width) / charts[0].width,
      clientY ?? box.top + 20,
      title,
      lines,
    );
  }
  function hide() {
    rules.forEach((rule) => rule.setAttribute('visibility', 'hidden'));
    hideTip();
  }
  if (!hovers.has(figure)) {
    figure.addEventListener('keydown', (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === 'Escape') hovers.get(figure).hide();
      if (!step || event.target !== figure) return;
      event.preventDefault();
      hovers.get(figure).step(step);
    });
    figure.addEventListener('blur', () => hovers.get(figure).hide());
  }
  hovers.set(figure, { hide, step: (by) => show(current + by) });
}
