// The first screen: what it is, how good it is, and how large.
function headline() {
  const first = DATA.headline;
  const [channels, height, width] = first.image;
  byId('title').append(`${first.name}: a network of ${plural(first.layers, 'layer')}`);
  const names = first.classes.length <= 12 ? `: ${first.classes.join(', ')}` : '';
  const kind = `${channels === 1 ? 'grey' : 'colour'} images of ${height}×${width} pixels`;
  say('lede', `A network that puts ${kind} into ${count(first.classes.length)} classes${names}.`);
  const figures = accuracyFigures();
  figures.push([count(first.parameters), `numbers learnt (${first.size}), all in closed form`]);
  if (first.time)
    figures.push([first.time, `of training${device()}${first.stopped ? `; it stopped because ${first.stopped}` : ''}`]);
  byId('figures').append(
    ...figures.map(([value, words, best]) =>
      node('div', { class: best ? 'best' : null }, node('b', null, value), node('span', null, words)),
    ),
  );
  byId('notes').append(...first.notes.map((note) => node('p', { class: 'note' }, note)));
}

function device() {
  const found = DATA.headline.about.find(([key]) => key === 'device');
  return found ? ` on ${found[1]}` : '';
}

function accuracyFigures() {
  const { chosen } = DATA.headline;
  const { test, validation, train } = DATA.curves;
  const at = (curve, layer) => percent(curve[layer - 1]);
  const images = (split) =>
    DATA.evaluation && DATA.evaluation.split === split ? ` (${count(DATA.evaluation.images)} images)` : '';
  const found = [];
  if (test) {
    if (chosen && chosen !== LAYERS)
      found.push([
        at(test, chosen),
        `test accuracy after layer ${chosen}, the depth chosen on validation images`,
        true,
      ]);
    const also = chosen === LAYERS ? ', also the depth chosen on validation images' : '';
    found.push([
      at(test, LAYERS),
      `test accuracy after the last layer, ${LAYERS}${also}${images('test')}`,
      !chosen || chosen === LAYERS,
    ]);
  }
  if (validation) {
    if (chosen && chosen !== LAYERS && !test)
      found.push([
        at(validation, chosen),
        `validation accuracy after layer ${chosen}, chosen on these same images, so a little flattering`,
        true,
      ]);
    found.push([
      at(validation, LAYERS),
      `validation accuracy after the last layer, ${LAYERS}${images('validation')}`,
      !test && chosen === LAYERS,
    ]);
  }
  if (!test && !validation && train)
    found.push([at(train, LAYERS), 'accuracy on the training images; no others were followed']);
  return found;
}

function contents() {
  const list = byId('contents');
  for (const section of document.querySelectorAll('section')) {
    list.append(node('li', null, node('a', { href: `#${section.id}` }, section.querySelector('h2').textContent)));
  }
}
