// The first screen: data set, accuracy and size.
function summary() {
  const facts = DATA.summary;
  const [channels, height, width] = facts.image;
  byId('title').append(`${facts.name}: a network of ${plural(facts.layers, 'layer')}`);
  const names = facts.classes.length <= 12 ? `: ${facts.classes.join(', ')}` : '';
  const kind = `${channels === 1 ? 'grey' : 'colour'} images of ${height}×${width} pixels`;
  addText('lede', `A network that classifies ${kind} into ${count(facts.classes.length)} classes${names}.`);
  const figures = accuracyFigures();
  figures.push([count(facts.parameters), `learned parameters (${facts.size}), all in closed form`]);
  if (facts.time)
    figures.push([facts.time, `training time${device()}${facts.stopped ? `; stopped because ${facts.stopped}` : ''}`]);
  byId('figures').append(
    ...figures.map(([value, words, best]) =>
      node('div', { class: best ? 'best' : null }, node('b', null, value), node('span', null, words)),
    ),
  );
  byId('notes').append(...facts.notes.map((note) => node('p', { class: 'note' }, note)));
}

function device() {
  const found = DATA.summary.about.find(([key]) => key === 'device');
  return found ? ` on ${found[1]}` : '';
}

function accuracyFigures() {
  const { best_depth: bestDepth } = DATA.summary;
  const { test, validation, train } = DATA.curves;
  const at = (curve, layer) => percent(curve[layer - 1]);
  const images = (split) =>
    DATA.evaluation && DATA.evaluation.split === split ? ` (${count(DATA.evaluation.images)} images)` : '';
  const found = [];
  if (test) {
    if (bestDepth && bestDepth !== LAYERS)
      found.push([
        at(test, bestDepth),
        `test accuracy after layer ${bestDepth}, the best validation depth`,
        true,
      ]);
    const also = bestDepth === LAYERS ? ', the best validation depth' : '';
    found.push([
      at(test, LAYERS),
      `test accuracy after the last layer, ${LAYERS}${also}${images('test')}`,
      !bestDepth || bestDepth === LAYERS,
    ]);
  }
  if (validation) {
    if (bestDepth && bestDepth !== LAYERS && !test)
      found.push([
        at(validation, bestDepth),
        `validation accuracy after layer ${bestDepth}, chosen on the same images, so slightly optimistic`,
        true,
      ]);
    found.push([
      at(validation, LAYERS),
      `validation accuracy after the last layer, ${LAYERS}${images('validation')}`,
      !test && bestDepth === LAYERS,
    ]);
  }
  if (!test && !validation && train)
    found.push([at(train, LAYERS), 'training accuracy; no other images were evaluated']);
  return found;
}

function contents() {
  const list = byId('contents');
  for (const section of document.querySelectorAll('section')) {
    list.append(node('li', null, node('a', { href: `#${section.id}` }, section.querySelector('h2').textContent)));
  }
}
