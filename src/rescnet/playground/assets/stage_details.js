/** One stage in full: its formula, the numbers of this drawing in it, and a picture to point at. */

/** What is pointed at: a filter, a pixel of its map, a block. @type {{filter: number, pixel: number, block?: number}} */
const pointed = { filter: 0, pixel: -1 };

/** @typedef {[string, string][]} Numbers symbol or name, and its value */
/** @type {Record<string, (view: View, target: HTMLElement, redraw: () => void) => {numbers: Numbers, hint: string}>} */
const DETAILS = {
  input(view, target) {
    const { input } = stepOf(view),
      maps = input.c - view.network.channels,
      range = layerOf(view).range;
    const all = planes(input),
      w = view.network.width;
    captioned(target, picture(all.slice(maps), w, view.network.channels, 'ink', zoomFor(w, 120)), 'image');
    if (maps)
      captioned(
        target,
        picture(all.slice(0, maps), w, 4, 'ink', zoomFor(4 * (w + 1), 260)),
        `${maps} maps of layer ${view.layer - 1}`,
      );
    /** @type {Numbers} */
    const numbers = [
      ['channels', maps ? `${maps} maps + ${view.network.channels} image` : `${view.network.channels} image`],
    ];
    if (maps) numbers.push(['range of the maps', `${show(range.low[0])} to ${show(range.high[0])}`]);
    const first = view.network.layers[0].range;
    numbers.push(['range of the image', `${show(first.low[0], 0)} to ${show(first.high[0], 0)}`]);
    return {
      numbers,
      hint: maps
        ? 'The image is beside the maps in every layer, so that nothing is lost.'
        : 'The first layer sees the image alone.',
    };
  },

  filters(view, target, redraw) {
    const { tiles, width } = filterTiles(view),
      layer = layerOf(view),
      size = layer.weights.length / layer.bias.length;
    const half = view.trained ? tiles.length / 2 : tiles.length,
      f = pointed.filter % tiles.length;
    const zoom = zoomFor(4 * (width + 3), view.trained ? 400 : 300);
    for (const [title, first, last] of /** @type {[string, number, number][]} */ (
      view.trained
        ? [
            ['PCA', 0, half],
            ['stacked-LDA', half, tiles.length],
          ]
        : [['filters', 0, tiles.length]]
    )) {
      captioned(target, choices(tiles.slice(first, last), width, zoom, first, f, redraw), title);
    }
    const filter = layer.weights.subarray(f * size, (f + 1) * size);
    return {
      numbers: [
        ['chosen filter', `${f + 1} of ${tiles.length}${view.trained ? `, ${f < half ? 'PCA' : 'stacked-LDA'}` : ''}`],
        ['numbers per filter', `${size} = ${size / layer.size ** 2} × ${layer.size}×${layer.size}`],
        ['‖w‖', show(Math.sqrt(dot(filter, 0, filter, 0, size)))],
        ['bias b', show(layer.bias[f])],
      ],
      hint:
        size > layer.size ** 2 * view.network.channels
          ? 'Each filter is a mosaic: one square per map of the layer before, the image last. Blue is positive.'
          : 'Blue is positive. Choose a filter to follow it into its map.',
    };
  },

  maps(view, target, redraw) {
    const { maps, input } = stepOf(view),
      { weights, bias, size: k } = layerOf(view),
      f = pointed.filter % maps.c,
      { h, w } = maps;
    const pixel =
      pointed.pixel < 0 || pointed.pixel >= h * w ? Math.floor(h / 2) * w + Math.floor(w / 2) : pointed.pixel;
    const all = planes(maps),
      most = Math.max(...all.map((map) => Math.max(...map.map(Math.abs)))) || 1;
    captioned(target, choices(all, w, zoomFor(4 * (w + 1), 230), 0, f, redraw), 'all maps');
    const large = picture([all[f]], w, 1, 'sign', zoomFor(w, 150), most);
    pointing(large, w, h, (at) => {
      pointed.pixel = at;
      redraw();
    });
    captioned(target, large, `map ${f + 1}: point at a pixel`);
    const y = Math.floor(pixel / w),
      x = pixel % w,
      before = Math.floor((k - 1) / 2);
    let sum = 0;
    for (let c = 0; c < input.c; c++) {
      for (let i = 0; i < k * k; i++) {
        const row = y + Math.floor(i / k) - before,
          column = x + (i % k) - before;
        if (row < 0 || row >= h || column < 0 || column >= w) continue;
        sum += weights[(f * input.c + c) * k * k + i] * input.data[(c * h + row) * w + column];
      }
    }
    return {
      numbers: [
        ['pixel', `row ${y + 1}, column ${x + 1}`],
        [`Σ of ${input.c * k * k} products`, show(sum)],
        ['bias b', show(bias[f])],
        ['O = Σ + b', show(sum + bias[f])],
        ['ReLU for pooling', show(Math.max(0, sum + bias[f]))],
      ],
      hint: 'Blue is positive. The next layer sees the map as it is; only pooling cuts off its negative part.',
    };
  },

  correlations(view, target, redraw) {
    const grid = view.network.grids[0],
      { chosen, matrix } = blockMatrix(view, pointed.block),
      d = pooledMaps(view),
      w = view.network.width;
    const row = Math.floor(chosen / grid.columns) * grid.stride,
      column = (chosen % grid.columns) * grid.stride;
    const image = planes(stepOf(view).input).at(-1) ?? new Float64Array();
    const inside = image.map((value, i) => {
      const y = Math.floor(i / w) - row,
        x = (i % w) - column;
      return y >= 0 && y < grid.size && x >= 0 && x < grid.size ? 0.25 + 0.75 * value : -0.35 * value;
    });
    const where = picture([inside], w, 1, 'sign', zoomFor(w, 140), 1);
    pointing(where, w, view.network.height, (at) => {
      const y = Math.round((Math.floor(at / w) - (grid.size - 1) / 2) / grid.stride),
        x = Math.round(((at % w) - (grid.size - 1) / 2) / grid.stride);
      pointed.block =
        Math.max(0, Math.min(grid.rows - 1, y)) * grid.columns + Math.max(0, Math.min(grid.columns - 1, x));
      redraw();
    });
    captioned(target, where, 'point at a block');
    captioned(target, picture([matrix], d, 1, 'sign', zoomFor(d, 200), 1), `${d}×${d} correlations of the maps`);
    let best = 1;
    matrix.forEach((value, i) => {
      if (i % d > Math.floor(i / d) && Math.abs(value) > Math.abs(matrix[best])) best = i;
    });
    return {
      numbers: [
        ['block', `rows ${row + 1} to ${row + grid.size}, columns ${column + 1} to ${column + grid.size}`],
        ['r·c', `${grid.size}·${grid.size} = ${grid.size ** 2} pixels`],
        ['strongest ρ', `${show(matrix[best])} of maps ${Math.floor(best / d) + 1} and ${(best % d) + 1}`],
        ['pairs', `${countPairs(d, view.network.config.matrix_log)}`],
      ],
      hint: 'Blue: two maps are large in the same places. Grey: where one is large, the other is small.',
    };
  },

  pyramid(view, target) {
    const matrices = cellMatrices(view),
      d = pooledMaps(view),
      { grids, config } = view.network;
    let from = 0;
    for (const { down, across } of grids.flatMap((grid) => grid.levels)) {
      const level = matrices.slice(from, (from += down * across));
      const shown = picture(level, d, across, 'sign', zoomFor(across * (d + 1), 150), 1);
      captioned(target, shown, `${down}×${across} cell${level.length > 1 ? 's' : ''}`);
    }
    const pairs = countPairs(d, config.matrix_log);
    return {
      numbers: [
        ['cells', `${matrices.length}`],
        ['pairs of maps', `${pairs}`],
        ['features D', `${matrices.length} · ${pairs} = ${(matrices.length * pairs).toLocaleString('en')}`],
      ],
      hint: config.matrix_log
        ? 'Means over the blocks of each cell, as the logarithm of the correlation matrix.'
        : `Each square: the ${config.pooling === 'max' ? 'maximum' : 'mean'} over the blocks of a cell, pair by pair.`,
    };
  },

  heads(view, target) {
    const { scores, posterior } = stepOf(view),
      classes = view.network.classes,
      { config } = view.network,
      layer = layerOf(view);
    const c = argmax(posterior.subarray(0, classes)),
      bars = make('div', { class: 'bars' });
    const ridge = config.head === 'ridge';
    bars.append(make('h4', {}, ridge ? 'Score of each class' : 'Add: posterior of the positive head'));
    drawBars(bars, view.names, posterior.subarray(0, classes), c);
    if (!ridge && layer.positiveShare < 1) {
      bars.append(make('h4', {}, 'Take away: posterior of the negative head'));
      drawBars(bars, view.names, posterior.subarray(classes), argmax(posterior.subarray(classes)));
    }
    target.append(bars);
    /** @type {Numbers} */
    const numbers = [[`score x of “${view.names[c]}”`, show(scores[c], 2)]];
    if (!ridge) numbers.push(['scale σ', String(config.sigmoid_scale)], ['posterior', show(posterior[c])]);
    if (!ridge) numbers.push(['share of images to add', `${show(100 * layer.positiveShare, 0)} %`]);
    return {
      numbers,
      hint:
        !ridge && layer.positiveShare === 1
          ? 'In this layer every training image still misses some of its class: nothing is taken away.'
          : '',
    };
  },

  output(view, target) {
    const { before, output, posterior } = stepOf(view),
      layer = layerOf(view),
      { config, classes } = view.network,
      c = argmax(output);
    const bars = make('div', { class: 'bars' }),
      y = view.truth;
    bars.append(make('h4', {}, `Output Ỹ after layer ${view.layer}`));
    drawBars(bars, view.names, output, c);
    /** @type {Numbers} */
    const numbers = [
      [`Ỹ of “${view.names[c]}” before`, show(before[c])],
      ['rate α', show(layer.rate, 2)],
    ];
    if (config.head !== 'ridge') {
      numbers.push(
        ['n_p/N · Ỹ_p', `${show(layer.positiveShare, 2)} · ${show(posterior[c])}`],
        ['n_n/N · Ỹ_n', `${show(1 - layer.positiveShare, 2)} · ${show(posterior[classes + c])}`],
      );
    }
    numbers.push(['after', show(output[c])]);
    target.append(bars);
    if (y === null)
      return {
        numbers,
        hint: view.trained ? 'The residual needs the true class: teach this drawing, or choose a held-out digit.' : '',
      };
    const { residual, target: label, positive } = residualTarget(y, output, config.ceiling);
    bars.append(make('h4', {}, `Residual R if it is “${view.names[y]}”`));
    drawBars(bars, view.names, residual, label);
    numbers.push(
      ['ceiling λ', show(config.ceiling, 1)],
      ['label for the next layer', `“${view.names[label]}”, to be ${positive ? 'added' : 'taken away'}`],
    );
    return { numbers, hint: '' };
  },
};

/** @param {HTMLElement} target @param {HTMLElement} shown @param {string} caption */
function captioned(target, shown, caption) {
  target.append(make('figure', {}, shown, make('figcaption', {}, caption)));
}

/**
 * Tiles as buttons that choose a filter.
 * @param {ArrayLike<number>[]} tiles @param {number} w @param {number} zoom @param {number} first number of the first tile
 * @param {number} chosen @param {() => void} redraw
 */
function choices(tiles, w, zoom, first, chosen, redraw) {
  const grid = make('div', { class: 'grid' });
  grid.style.gridTemplateColumns = `repeat(${Math.min(4, tiles.length)}, max-content)`;
  const most = Math.max(...tiles.map((tile) => Math.max(...Array.from(tile, Math.abs)))) || 1;
  tiles.forEach((tile, i) => {
    const button = make(
      'button',
      { 'aria-pressed': String(first + i === chosen), 'aria-label': `Filter ${first + i + 1}` },
      picture([tile], w, 1, 'sign', zoom, most),
    );
    button.addEventListener('click', () => {
      pointed.filter = first + i;
      redraw();
    });
    grid.append(button);
  });
  return grid;
}

/**
 * Call `chosen` with the pixel under the pointer.
 * @param {HTMLElement} canvas @param {number} w @param {number} h @param {(at: number) => void} chosen
 */
function pointing(canvas, w, h, chosen) {
  canvas.classList.add('point');
  canvas.addEventListener('pointerdown', (event) => {
    const box = canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * w),
      y = Math.floor(((event.clientY - box.top) / box.height) * h);
    chosen(Math.max(0, Math.min(h - 1, y)) * w + Math.max(0, Math.min(w - 1, x)));
  });
}

/** Draw the chosen stage in full. @param {View} view @param {string} stage @param {() => void} redraw */
function drawDetail(view, stage, redraw) {
  const template = templateOf(stage, view.network.config),
    formula = byId('detail-formula'),
    target = byId('detail-picture');
  if (formula.dataset.stage !== stage) {
    formula.dataset.stage = stage;
    formula.replaceChildren(template.content.cloneNode(true));
    byId('detail-title').textContent = template.dataset.title;
    byId('detail-words').textContent = template.dataset.words;
    byId('detail-source').textContent = template.dataset.source;
    const reduction = formula.querySelector('[data-reduction]');
    if (reduction) reduction.textContent = view.network.config.pooling;
  }
  target.replaceChildren();
  const { numbers, hint } = DETAILS[stage](view, target, redraw);
  byId('detail-numbers').replaceChildren(
    ...numbers.flatMap(([name, value]) => [make('dt', {}, name), make('dd', {}, value)]),
  );
  byId('detail-hint').textContent = hint;
}
