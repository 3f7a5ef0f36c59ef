// How the network works, with its own numbers: a diagram of the layers, then the stages of one layer.
const RECTIFIED = {
  relu: 'Keep positive values (ReLU)',
  both: 'Keep positive and negative values in separate maps',
  abs: 'Keep absolute values',
  none: 'Keep all values',
};

// What layers take as their input: the image alone at the first place of a stack, else also the maps before.
function inputOfLayers() {
  const { layers, filters, stack_depth: depth } = DATA.layer;
  if (depth === 1) return layers === 1 ? 'It takes the image' : 'Each layer takes the image alone';
  const others = `the image and the ${filters} maps of the previous layer`;
  if (depth === layers) return `Layer 1 takes the image, each later layer ${others}`;
  return `Layers form stacks of ${depth}: the first of a stack takes the image, the others ${others}`;
}

function howItWorks() {
  const { layers, classes, ceiling } = DATA.layer;
  addText(
    'how-words',
    `The network has ${plural(layers, 'layer')}. ${inputOfLayers()}.`,
    `Each adds a correction to the output: ${classes} numbers, one per class.`,
    'The class with the greatest output is the prediction.',
    `The target output is ${ceiling} for the true class and 0 for all others.`,
    'A layer learns the residual: the difference that the previous layers left.',
    'Filters and classifiers are solved in closed form, layer by layer, without gradients.',
  );
  drawing(() => chain(byId('chain')));
  const example = DATA.first_layer;
  addText(
    'example-words',
    example
      ? `The pictures show one ${DATA.evaluation.split} image, of the class ${NAMES[example.label]}, in layer 1.`
      : '',
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
  const example = DATA.first_layer;
  const picture = (source, words) => node('img', { class: 'pixels', src: source, alt: words, title: words });
  const image = `${n.height}×${n.width}`;
  const kinds = n.banks.map(([name, many]) => `${many} ${name}`).join(' + ');
  const sizes =
    (n.first_size === n.size
      ? `${n.size}×${n.size}`
      : `${n.first_size}×${n.first_size} in layer 1, ${n.size}×${n.size} later`) +
    (n.grey_size ? ` (${n.grey_size}×${n.grey_size} in grey stacks)` : '');
  const levels = n.pyramid.map((side) => `${side}×${side}`).join(', ');
  const ridge = n.head === 'ridge';
  return [
    [
      'Concatenate',
      n.stack_depth === 1 ? plural(n.channels, 'channel') : `${n.channels} → ${n.filters + n.channels} channels`,
      `${inputOfLayers()}. The image is ${image}×${n.channels}.`,
      example && [picture(example.picture, `the image: ${NAMES[example.label]}`)],
    ],
    [
      'Scale',
      'to 0 … 1',
      n.scaling === 'global'
        ? 'One range for all channels, from the training images.'
        : 'One range per channel, from the training images.',
      [scaleArt(n)],
    ],
    [
      'Convolve',
      `${n.filters} filters: ${kinds}`,
      `Each filter has ${sizes} pixels on all channels and gives a map of ${image}. ` +
        'Filters are learned from patches of the training images.',
      filterArt(picture),
    ],
    [
      'Rectify',
      `${n.pooled_maps} maps`,
      `${RECTIFIED[n.rectifier]}, for pooling only.${n.stack_depth === 1 ? '' : ' The next layer takes the maps before this stage.'}`,
      example && example.maps.map((map) => picture(map.picture, `map ${map.number}, rectified`)),
    ],
    [
      'Second-order pooling',
      `${n.blocks.map((sides) => sides.join('×')).join(' and ')} blocks, ${count(n.pairs)} pairs`,
      `Correlation of each pair of maps in blocks of ${n.block_sizes.map((side) => `${side}×${side}`).join(' and ')}, ` +
        `${plural(n.stride, 'pixel')} apart.`,
      example && [
        picture(
          example.correlations,
          `correlations of ${n.pooled_maps} maps in the middle block: orange positive, blue negative`,
        ),
      ],
    ],
    [
      'Pyramid pooling',
      `${n.cells.join(' + ')} cells → ${count(n.features)} features`,
      `The ${n.pooling === 'max' ? 'maximum' : 'mean'} in each cell of a pyramid of ${levels}` +
        `${n.cells.length > 1 ? `, once per block size` : ''}: ` +
        'keeps the coarse position only.' +
        (n.matrix_log ? ' Then the matrix logarithm of the correlations of each cell.' : ''),
      [pyramidArt(n.pyramid)],
    ],
    [
      'Classify',
      ridge
        ? `${n.classes} regressions`
        : `2 × ${n.classes} ${n.head === 'lda' ? 'one-vs-rest LDAs' : 'LDA discriminants'}`,
      ridge
        ? 'One ridge regression of the residual per class, all from one factorisation.'
        : 'Per class, one that raises the output and one that lowers it; ' +
          'one factorisation of the scatter matrix solves all.',
      [discriminantArt()],
    ],
    [
      'Update',
      `output + ${+n.rate.toFixed(3)} × correction`,
      'The correction is added to the output. The next layer learns the remaining residual.',
      example && [correctionArt(example)],
    ],
  ];
}
