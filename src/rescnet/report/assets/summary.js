// The first screen: data set, accuracy and size.
const HOW_TO_GET_IMAGES =
  'This report shows no images. To add images that did not train the network: ' +
  'rescnet report MODEL FOLDER --overwrite, or write_report(model, path, dataset).';

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
  if (!DATA.evaluation) facts.notes.push(HOW_TO_GET_IMAGES);
  byId('notes').append(...facts.notes.map((note) => node('p', { class: 'note' }, note)));
}

function device() {
  const found = DATA.summary.about.find(([key]) => key === 'device');
  return found ? ` on ${found[1]}` : '';
}

function accuracyFigures() {
  const { best_depth: bestDepth } = DATA.summary;
  const { evaluation } = DATA;
  const found = [];
  if (evaluation?.readout)
    found.push([
      percent(evaluation.accuracy),
      `${evaluation.split} accuracy with the kernel readout (${count(evaluation.images)} images)` +
        `, ${interval(evaluation.interval)}`,
      true,
    ]);
  for (const split of ['test', 'validation']) {
    const curve = DATA.curves[split];
    if (!curve) continue;
    const first = !found.length;
    const figure = (layer, words, best) =>
      found.push([percent(curve[layer - 1]), `${split} accuracy after ${words}${intervalAt(split, layer)}`, best]);
    const chosen = split === 'validation' ? ', chosen on the same images, so slightly optimistic' : '';
    if (bestDepth && bestDepth !== LAYERS && (split === 'test' || !DATA.curves.test))
      figure(bestDepth, `layer ${bestDepth}, the best validation depth${chosen}`, first);
    const images = evaluation?.split === split ? ` (${count(evaluation.images)} images)` : '';
    const also = bestDepth === LAYERS ? ', the best validation depth' : '';
    figure(LAYERS, `the last layer, ${LAYERS}${also}${images}`, first && (!bestDepth || bestDepth === LAYERS));
  }
  const { left_out: leftOut } = DATA.summary;
  if (leftOut)
    found.push([
      percent(leftOut.accuracy),
      `leave-one-out accuracy: each of ${count(leftOut.images)} training images predicted without it, ` +
        `${interval(leftOut.interval)} for new images; a little too high with few images`,
      !found.length,
    ]);
  if (!found.length && DATA.curves.train)
    found.push([percent(DATA.curves.train.at(-1)), 'training accuracy; no other images were evaluated']);
  if (evaluation)
    found.push([percent(evaluation.majority, 1), 'baseline: accuracy of always predicting the most frequent class']);
  return found;
}

function contents() {
  const list = byId('contents');
  for (const section of document.querySelectorAll('section')) {
    list.append(node('li', null, node('a', { href: `#${section.id}` }, section.querySelector('h2').textContent)));
  }
}
