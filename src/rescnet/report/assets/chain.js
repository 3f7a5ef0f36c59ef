// Diagram of the network: every layer takes the image, and the previous maps within a stack, and adds a correction.
function chain(holder) {
  const width = Math.max(300, holder.clientWidth || 600);
  const small = width < 560;
  const all = Array.from({ length: LAYERS }, (_, i) => String(i + 1));
  const boxes = LAYERS <= (small ? 2 : 3) ? all : ['1', '2', '…', String(LAYERS)];
  const left = small ? 62 : 100;
  const step = (width - left - 8) / boxes.length;
  const box = Math.min(step * (small ? 0.5 : 0.66), 150);
  const svg = shape('svg', {
    viewBox: `0 0 ${width} 186`,
    role: 'img',
    'aria-label': `${inputOfLayers()}. Each of ${LAYERS} layers adds a correction to the output`,
  });
  const defs = shape(
    'defs',
    null,
    shape(
      'marker',
      { id: 'arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto' },
      shape('path', { d: 'M0 0L8 4L0 8z', style: { fill: 'var(--soft)' } }),
    ),
  );
  const arrow = (x1, y1, x2, y2) =>
    shape('path', {
      d: `M${x1} ${y1}L${x2} ${y2}`,
      'marker-end': 'url(#arrow)',
      style: { stroke: 'var(--soft)', 'stroke-width': 1.4 },
    });
  const words = (x, y, text, anchor = 'middle', strong = false) =>
    shape('text', { x, y, 'text-anchor': anchor, class: strong ? 'strong' : null }, text);
  svg.append(defs, words(left - 22, 24, 'image', 'end', true));
  svg.append(
    shape('path', {
      d: `M${left - 16} 20H${left + step * (boxes.length - 1) + step / 2}`,
      fill: 'none',
      style: { stroke: 'var(--soft)', 'stroke-width': 1.4 },
    }),
  );
  boxes.forEach((name, i) => {
    const middle = left + step * i + step / 2;
    if (name === '…') {
      svg.append(words(middle, 78, '…', 'middle', true));
    } else {
      svg.append(
        arrow(middle, 20, middle, 48),
        shape('rect', {
          x: middle - box / 2,
          y: 50,
          width: box,
          height: 46,
          rx: 8,
          style: { fill: 'var(--faint)', stroke: 'var(--correct)', 'stroke-width': 1.6 },
        }),
        words(middle, 78, small ? name : `layer ${name}`, 'middle', true),
        arrow(middle, 97, middle, 142),
        shape('text', { x: middle + 7, y: 124 }, small ? '+' : '+ correction'),
      );
    }
    const next = Number(boxes[i + 1]); // NaN for …
    if (i < boxes.length - 1 && DATA.layer.stack_depth > 1 && (next - 1) % DATA.layer.stack_depth !== 0) {
      svg.append(
        arrow(
          middle + (name === '…' ? 14 : box / 2),
          73,
          middle + step - (boxes[i + 1] === '…' ? 14 : box / 2) - 1,
          73,
        ),
      );
      if (i === 0 && step - box > 34)
        svg.append(words(middle + step / 2, 66, step - box > 66 ? `${DATA.layer.filters} maps` : 'maps'));
    }
  });
  svg.append(
    shape('rect', {
      x: left,
      y: 144,
      width: width - left - 6,
      height: 30,
      rx: 6,
      style: { fill: 'none', stroke: 'var(--mark)', 'stroke-width': 1.6 },
    }),
    words(
      left + (width - left) / 2,
      164,
      small
        ? `output: ${plural(DATA.layer.classes, 'number')}`
        : `output: ${DATA.layer.classes} numbers; the greatest is the prediction`,
      'middle',
      true,
    ),
    words(left - 8, 163, 'sum', 'end'),
  );
  holder.replaceChildren(svg);
}
