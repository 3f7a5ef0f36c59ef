// How the network works, in its own numbers: the chain of layers, then the steps of one.
const RECTIFIED = {
  relu: 'Keep what is positive (ReLU)',
  both: 'Keep what is positive, and what is negative as maps of their own',
  abs: 'Keep the size, not the sign',
  none: 'Keep all as it is',
};

function howItWorks() {
  const { layers, filters, classes, ceiling } = DATA.layer;
  say(
    'how-words',
    `An image goes through ${plural(layers, 'layer')}. Every layer looks at the image and at the ${filters} maps`,
    `the layer before it made, and adds a correction to a running output: ${classes} numbers, one a class.`,
    'The class with the greatest output is the answer.',
    'What a layer learns is what the layers before it left wrong, the residual:',
    `an output should be ${ceiling} for the true class and 0 for all others.`,
    'Filters and classifiers are solved in closed form, one layer after the other; no gradient is taken anywhere.',
  );
  drawing(() => chain(byId('chain')));
  const walk = DATA.walk;
  say(
    'walk-words',
    walk
      ? `The pictures follow one ${DATA.evaluation.split} image, of the class ${NAMES[walk.label]}, through layer 1.`
      : `An image would be shown on its way here. ${HOW_TO_GET_IMAGES}`,
  );
  byId('steps').append(
    ...steps().map(([title, size, words, art]) =>
      node(
        'li',
        null,
        node('h4', null, title),
        node('span', { class: 'size' }, size),
        node('p', null, words),
        art && art.length ? node('div', { class: 'art' }, art) : null,
      ),
    ),
  );
}

function steps() {
  const n = DATA.layer;
  const walk = DATA.walk;
  const picture = (source, words) => node('img', { class: 'pixels', src: source, alt: words, title: words });
  const image = `${n.height}×${n.width}`;
  const kinds = n.banks.map(([name, many]) => `${many} ${name}`).join(' + ');
  const sizes =
    (n.first_size === n.size
      ? `${n.size}×${n.size}`
      : `${n.first_size}×${n.first_size} in layer 1, ${n.size}×${n.size} later`) +
    (n.grey_size ? ` (${n.grey_size}×${n.grey_size} where a stack sees no colour)` : '');
  const levels = n.pyramid.map((side) => `${side}×${side}`).join(', ');
  const ridge = n.head === 'ridge';
  return [
    [
      'Join',
      `${n.channels} → ${n.filters + n.channels} channels`,
      `Layer 1 takes the image, ${image}×${n.channels}. Later layers take the ${n.filters} maps before them ` +
        'and the image again, so nothing is lost on the way.',
      walk && [picture(walk.picture, `the image: ${NAMES[walk.label]}`)],
    ],
    [
      'Scale',
      'to 0 … 1',
      n.scaling === 'global'
        ? 'One range, found on the training images, for all channels.'
        : 'A range of its own, found on the training images, for each channel.',
      [scaleArt(n)],
    ],
    [
      'Filter',
      `${n.filters} filters: ${kinds}`,
      `Each is ${sizes} pixels on all channels and gives a map of ${image}. ` +
        'They are solved from patches of the training images.',
      filterArt(picture),
    ],
    [
      'Rectify',
      `${n.pooled_maps} maps`,
      `${RECTIFIED[n.rectifier]}, for the next steps only: the maps as they are go on to the next layer.`,
      walk && walk.maps.map((map) => picture(map.picture, `map ${map.number}, rectified`)),
    ],
    [
      'Correlate',
      `${n.blocks[0]}×${n.blocks[1]} blocks × ${count(n.pairs)} pairs`,
      `In every ${n.block}×${n.block} block, ${plural(n.stride, 'pixel')} apart: ` +
        'how strongly each pair of maps goes together there (second-order pooling).',
      walk && [
        picture(
          walk.correlations,
          `correlations of ${n.pooled_maps} maps in the middle block: orange together, blue opposed`,
        ),
      ],
    ],
    [
      'Pool',
      `${n.cells} cells → ${count(n.features)} features`,
      `The ${n.pooling === 'max' ? 'greatest' : 'mean'} value in the cells of a pyramid of ${levels}: ` +
        'coarse place is kept, exact place forgotten.' +
        (n.matrix_root ? ' Of each cell’s correlations the matrix square root is taken.' : ''),
      [pyramidArt(n.pyramid)],
    ],
    [
      'Judge',
      ridge
        ? `${n.classes} regressions`
        : `2 × ${n.classes} ${n.head === 'lda' ? 'one-vs-rest LDAs' : 'LDA discriminants'}`,
      ridge
        ? 'A ridge regression of what is missing, for each class, from one factorisation.'
        : 'For each class one that says “raise it” and one that says “lower it”; ' +
          'one factorisation of the features’ scatter solves all.',
      [judgeArt()],
    ],
    [
      'Correct',
      `output + ${+n.rate.toFixed(3)} × correction`,
      'The correction is added to the output. What is still missing, the residual, is what the next layer learns.',
      walk && [correctionArt(walk)],
    ],
  ];
}
