// Filters as pictures, layer by layer and bank by bank.
function filterPictures() {
  say(
    'filters-lede',
    'In layer 1 a filter is a small picture: mid-grey counts for nothing, light for, dark against.',
    'Deeper filters read many maps at once: drawn are their slices on the four inputs they read most, orange for,',
    'blue against. The numbers under them are maps of the layer before;',
    DATA.layer.channels === 3 ? 'R, G, B are the colours of the image.' : 'I is the image.',
  );
  byId('filter-layers').append(
    ...DATA.filters.map((layer) => {
      const [filters, channels, size] = layer.shape;
      const made = [];
      const own = DATA.layer.channels;
      for (const group of layer.groups) {
        made.push(
          node('p', { class: 'bank' }, `${group.tiles.length} by ${group.meaning}`),
          node(
            'div',
            { class: 'tiles' },
            group.tiles.map((tile) =>
              layer.as_image
                ? node('img', { class: 'pixels own', src: tile.picture, alt: tile.words, title: tile.words })
                : node(
                    'figure',
                    null,
                    node('img', { class: 'pixels slices', src: tile.picture, alt: tile.words, title: tile.words }),
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
      if (layer.reading) {
        made.push(
          node(
            'div',
            { class: 'reading' },
            node('img', {
              class: 'pixels',
              src: layer.reading.picture,
              alt: `how strongly each of ${filters} filters reads each of ${channels} inputs`,
            }),
            node(
              'p',
              null,
              'Which filter (row) reads which input (column), the deeper the more; ',
              own === 1 ? 'the last column is the image itself. ' : `the last ${own} columns are the image itself. `,
              `The filters give it ${percent(layer.reading.image_share, 0)} of their weight.`,
            ),
          ),
        );
      }
      const open = layer.as_image || filters <= 24 ? '' : null; // many filters fill screens: shown when asked for
      return node(
        'details',
        { open, class: 'filters' },
        node(
          'summary',
          null,
          node('h3', null, `Layer ${layer.layer}: ${filters} filters of ${size}×${size}×${channels}`),
        ),
        made,
      );
    }),
  );
}
