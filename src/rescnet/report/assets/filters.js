// Pictures of the filters, by layer and bank.
function filterPictures() {
  addText(
    'filters-lede',
    'A filter of layer 1 is a small image: mid-grey is zero, light is positive, dark is negative.',
    'Deeper filters have many input channels. The four with the largest weights are drawn:',
    'orange is positive, blue is negative. The numbers below are maps of the previous layer;',
    DATA.layer.channels === 3 ? 'R, G, B are the channels of the image.' : 'I is the image.',
  );
  byId('filter-layers').append(
    ...DATA.filters.map((layer) => {
      const [filters, channels, size] = layer.shape;
      const parts = [];
      const own = DATA.layer.channels;
      for (const group of layer.groups) {
        parts.push(
          node('p', { class: 'bank' }, `${plural(group.tiles.length, 'filter')}, ${group.meaning}`),
          node(
            'div',
            { class: 'tiles' },
            group.tiles.map((tile) =>
              layer.as_image
                ? node('img', { class: 'pixels own', src: tile.picture, alt: tile.caption, title: tile.caption })
                : node(
                    'figure',
                    null,
                    node('img', { class: 'pixels slices', src: tile.picture, alt: tile.caption, title: tile.caption }),
                    node(
                      'figcaption',
                      { 'aria-hidden': 'true' },
                      tile.inputs.map((name) => node('span', null, name)),
                    ),
                  ),
            ),
          ),
        );
      }
      if (layer.input_weights) {
        parts.push(
          node(
            'div',
            { class: 'input-weights' },
            node('img', {
              class: 'pixels',
              src: layer.input_weights.picture,
              alt: `weight of each of ${channels} inputs in each of ${filters} filters`,
            }),
            node(
              'p',
              null,
              'Weight of each input (column) in each filter (row), darker is larger; ',
              own === 1 ? 'the last column is the image. ' : `the last ${own} columns are the image. `,
              `It has ${percent(layer.input_weights.image_share, 0)} of the squared weight.`,
            ),
          ),
        );
      }
      const open = layer.as_image || filters <= 24 ? '' : null; // many filters are collapsed
      return node(
        'details',
        { open, class: 'filters' },
        node(
          'summary',
          null,
          node('h3', null, `Layer ${layer.layer}: ${filters} filters of ${size}×${size}×${channels}`),
        ),
        parts,
      );
    }),
  );
}
