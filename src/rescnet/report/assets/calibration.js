// Accuracy over confidence: of images predicted with 80 %, are 80 % correct?
function calibration() {
  const { evaluation } = DATA;
  if (!evaluation) {
    addText('calibration-words', NEEDS_IMAGES);
    byId('calibration-plot').hidden = true;
    return;
  }
  const { error, confidence } = evaluation.calibration;
  addText(
    'calibration-words',
    'Accuracy of images with about the same confidence, the largest probability of an image.',
    'On the dashed line, probabilities mean what they say; below it they are too high.',
    `Mean confidence is ${percent(confidence, 1)}, accuracy ${percent(evaluation.accuracy, 1)};`,
    `the expected calibration error is ${error.toFixed(3)}.`,
  );
  drawing(() => byId('calibration-plot').replaceChildren(calibrationChart(evaluation)));
}

function calibrationChart({ calibration: { bins, count: number, error }, images }) {
  const [width, height, bottom] = [Math.min(520, Math.max(260, byId('calibration-plot').clientWidth)), 300, 262];
  const x = (share) => LEFT + (width - LEFT - 16) * share;
  const y = (share) => bottom - (bottom - 10) * share;
  const label = `Accuracy over confidence; expected calibration error ${error.toFixed(3)}`;
  const svg = shape('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label, style: { 'max-width': `${width}px` } });
  for (const share of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
    svg.append(
      shape('line', { x1: LEFT, x2: x(1), y1: y(share), y2: y(share), style: { stroke: 'var(--line)' } }),
      shape('text', { x: LEFT - 8, y: y(share) + 4, 'text-anchor': 'end' }, percent(share, 0)),
      shape('text', { x: x(share), y: bottom + 16, 'text-anchor': 'middle' }, percent(share, 0)),
    );
  }
  svg.append(shape('text', { x: x(0.5), y: height - 4, 'text-anchor': 'middle' }, 'confidence'));
  for (const { bin, images: inside, confidence, accuracy } of bins) {
    const bar = shape('rect', {
      x: x(bin / number) + 1,
      y: y(accuracy),
      width: x(1 / number) - x(0) - 2,
      height: y(0) - y(accuracy),
      style: { fill: 'var(--test)', opacity: 0.25 + 0.65 * Math.sqrt(inside / images) },
    });
    const rows = [
      [null, 'images', count(inside)],
      [null, 'mean confidence', percent(confidence, 1)],
      [null, 'accuracy', percent(accuracy, 1)],
    ];
    const title = `confidence ${percent(bin / number, 0)} to ${percent((bin + 1) / number, 0)}`;
    bar.addEventListener('pointermove', (event) => showTip(event.clientX, event.clientY, title, rows));
    bar.addEventListener('pointerleave', hideTip);
    svg.append(bar, shape('circle', { cx: x(confidence), cy: y(accuracy), r: 3.5, style: { fill: 'var(--ink)' } }));
  }
  const diagonal = { x1: x(0), y1: y(0), x2: x(1), y2: y(1), 'stroke-dasharray': '5 4' };
  svg.append(shape('line', { ...diagonal, style: { stroke: 'var(--quiet)', 'stroke-width': 1.5 } }));
  return svg;
}
