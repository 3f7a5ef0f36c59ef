/**
 * The stages of one layer as small pictures, one card each.
 * @typedef {{network: Network, steps: Step[], layer: number, names: string[], truth: number | null, trained: boolean}} View
 *   of one drawing; the layer is counted from 1, names are those of the network's classes
 */

/** @param {View} view */
const layerOf = (view) => view.network.layers[view.layer - 1];
/** @param {View} view */
const stepOf = (view) => view.steps[view.layer - 1];
/** Maps that are pooled. @param {View} view */
const pooledMaps = (view) => layerOf(view).bias.length * (view.network.config.rectifier === 'both' ? 2 : 1);

/** Each filter as a mosaic of its channels. @param {View} view @returns {{tiles: Float64Array[], width: number}} */
function filterTiles(view) {
  const { weights, bias, size: k } = layerOf(view),
    channels = weights.length / bias.length / k ** 2;
  const across = Math.ceil(Math.sqrt(channels)),
    down = Math.ceil(channels / across),
    gap = channels > 1 ? 1 : 0;
  const width = across * (k + gap) - gap,
    height = down * (k + gap) - gap;
  const tiles = Array.from(bias, (_, f) => {
    const tile = new Float64Array(width * height);
    for (let c = 0; c < channels; c++) {
      for (let i = 0; i < k * k; i++) {
        const y = Math.floor(c / across) * (k + gap) + Math.floor(i / k),
          x = (c % across) * (k + gap) + (i % k);
        tile[y * width + x] = weights[(f * channels + c) * k * k + i];
      }
    }
    return tile;
  });
  return { tiles, width };
}

/** Correlations of the block that varies most, or of a chosen one. @param {View} view @param {number} [block] */
function blockMatrix(view, block) {
  const { grids, config } = view.network,
    found = blockCorrelations(stepOf(view).maps, 0, grids[0], config);
  const pairs = found.length / (grids[0].rows * grids[0].columns),
    d = pooledMaps(view);
  const middle = Math.floor(grids[0].rows / 2) * grids[0].columns + Math.floor(grids[0].columns / 2);
  const chosen = block === undefined || block >= grids[0].rows * grids[0].columns ? middle : block;
  return { chosen, matrix: fullMatrix(found.subarray(chosen * pairs, (chosen + 1) * pairs), d, config.matrix_log) };
}

/** Features of each cell as a matrix. @param {View} view */
function cellMatrices(view) {
  const { features } = stepOf(view),
    d = pooledMaps(view),
    pairs = countPairs(d, view.network.config.matrix_log);
  return Array.from({ length: features.length / pairs }, (_, cell) =>
    fullMatrix(features.subarray(cell * pairs, (cell + 1) * pairs), d, view.network.config.matrix_log),
  );
}

/** Screen pixels per number, so that a picture is about `width` wide. @param {number} numbers @param {number} width */
const zoomFor = (numbers, width) => Math.max(0.5, Math.min(28, width / numbers));

/** A picture for a card. @param {ArrayLike<number>[]} tiles @param {number} w @param {Palette} palette */
function art(tiles, w, palette) {
  const across = Math.ceil(Math.sqrt(tiles.length));
  return picture(tiles, w, across, palette, zoomFor(across * (w + 1), 96));
}

/** @type {Record<string, {size: (view: View) => string, art: (view: View) => HTMLElement}>} */
const STAGES = {
  input: {
    size: ({ steps, layer, network }) => `${steps[layer - 1].input.c} × ${network.height}×${network.width}`,
    art: (view) => art(planes(stepOf(view).input), view.network.width, 'ink'),
  },
  filters: {
    size: (view) => `${layerOf(view).bias.length} of ${layerOf(view).size}×${layerOf(view).size}`,
    art: (view) => {
      const { tiles, width } = filterTiles(view);
      return art(tiles, width, 'sign');
    },
  },
  maps: {
    size: (view) => `${layerOf(view).bias.length} × ${view.network.height}×${view.network.width}`,
    art: (view) => art(planes(stepOf(view).maps), view.network.width, 'sign'),
  },
  correlations: {
    size: ({ network: { grids } }) => `${grids.reduce((sum, grid) => sum + grid.rows * grid.columns, 0)} blocks`,
    art: (view) => art([blockMatrix(view).matrix], pooledMaps(view), 'sign'),
  },
  pyramid: {
    size: (view) => `${stepOf(view).features.length.toLocaleString('en')} features`,
    art: (view) => art(cellMatrices(view), pooledMaps(view), 'sign'),
  },
  heads: {
    size: (view) =>
      view.network.config.head === 'ridge' ? `${view.network.classes} scores` : `2 × ${view.network.classes} scores`,
    art: (view) => {
      const { posterior } = stepOf(view),
        classes = view.network.classes,
        signs = posterior.length / classes;
      return columnsArt(Array.from({ length: signs }, (_, s) => posterior.subarray(s * classes, (s + 1) * classes)));
    },
  },
  output: {
    size: (view) => `answer “${view.names[argmax(stepOf(view).output)].slice(0, 9)}”`,
    art: (view) => columnsArt([stepOf(view).output]),
  },
};

/** Small column charts, one below the other; the largest column has the accent colour. @param {Float64Array[]} rows */
function columnsArt(rows) {
  const width = 48,
    height = rows.length > 1 ? 20 : 42,
    most = Math.max(...rows.flatMap((row) => Array.from(row, Math.abs)), 1e-9);
  const tiles = rows.map((row) => {
    const tile = new Float64Array(width * height),
      best = argmax(row);
    row.forEach((value, c) => {
      const left = Math.round((c * width) / row.length),
        right = Math.max(left + 1, Math.round(((c + 1) * width) / row.length) - 1);
      for (let y = height - Math.round((Math.abs(value) / most) * height); y < height; y++)
        tile.fill(c === best ? 1 : -0.5, y * width + left, y * width + right);
    });
    return tile;
  });
  return picture(tiles, width, 1, 'sign', 2, 1);
}

/**
 * Draw the cards; `choose` is called with the name of a stage.
 * @param {HTMLElement} target @param {View} view @param {string} chosen @param {(stage: string) => void} choose
 */
function drawCards(target, view, chosen, choose) {
  if (!target.childElementCount) {
    for (const name of Object.keys(STAGES)) {
      const title = String(templateOf(name, view.network.config).dataset.title),
        card = make(
          'button',
          { role: 'tab', 'data-stage': name },
          make('b', {}, title.split(' ')[0]),
          make('span', { class: 'art' }),
          make('small'),
        );
      card.addEventListener('click', () => choose(name));
      target.append(card);
    }
    target.addEventListener('keydown', (event) => {
      const cards = /** @type {HTMLElement[]} */ ([...target.children]),
        at = cards.indexOf(/** @type {HTMLElement} */ (document.activeElement));
      const next = cards[at + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? 0)];
      if (at >= 0 && next && next !== cards[at]) {
        next.focus();
        next.click();
      }
    });
  }
  for (const card of /** @type {HTMLElement[]} */ ([...target.children])) {
    const { size, art: draw } = STAGES[String(card.dataset.stage)];
    card.children[1].replaceChildren(draw(view));
    card.children[2].textContent = size(view);
    card.setAttribute('aria-selected', String(card.dataset.stage === chosen));
    card.tabIndex = card.dataset.stage === chosen ? 0 : -1;
    if (card.dataset.stage === chosen && target.dataset.shown !== chosen) {
      // a phone shows some cards at a time
      target.scrollTo({ left: card.offsetLeft - (target.clientWidth - card.offsetWidth) / 2 });
      target.dataset.shown = chosen;
    }
  }
}

/**
 * The formula and words of a stage; some have others where a model is not the paper's.
 * @param {string} name @param {Config} config @returns {HTMLTemplateElement}
 */
function templateOf(name, config) {
  const ridge = config.head === 'ridge' && (name === 'heads' || name === 'output');
  const other = name === 'filters' && config.bank !== 'pca + stacked-lda';
  return /** @type {HTMLTemplateElement} */ (
    document.querySelector(`template[data-stage="${name}${ridge ? '-ridge' : other ? '-other' : ''}"]`)
  );
}
