/** Small pictures of numbers, on canvases. */

/** @typedef {'ink' | 'sign'} Palette ink: 0 is the paper; sign: the accent colour is positive */

/** @param {string} name of a colour of the style @returns {number[]} */
function colour(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const full = text.length === 4 ? text.replace(/[0-9a-f]/gi, '$&$&') : text;
  return [1, 3, 5].map((i) => parseInt(full.slice(i, i + 2), 16));
}

/**
 * Paint tiles of h×w numbers onto a canvas, with a gap of one pixel; the colours of all tiles have one scale.
 * @param {HTMLCanvasElement} canvas @param {ArrayLike<number>[]} tiles @param {number} w width of a tile
 * @param {number} columns @param {Palette} palette @param {number} zoom screen pixels per number @param {number} [most]
 */
function paintTiles(canvas, tiles, w, columns, palette, zoom, most) {
  const h = tiles[0].length / w,
    rows = Math.ceil(tiles.length / columns);
  const scale = most ?? (Math.max(...tiles.map((tile) => Math.max(...Array.from(tile, Math.abs)))) || 1);
  const paper = colour('--faint'),
    above = colour(palette === 'ink' ? '--ink' : '--accent'),
    below = colour('--below');
  canvas.width = columns * (w + 1) - 1;
  canvas.height = rows * (h + 1) - 1;
  canvas.style.width = `${canvas.width * zoom}px`;
  canvas.className = 'pixels';
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  const image = context.createImageData(canvas.width, canvas.height);
  tiles.forEach((tile, t) => {
    const top = Math.floor(t / columns) * (h + 1),
      left = (t % columns) * (w + 1);
    for (let i = 0; i < tile.length; i++) {
      const value = Math.max(-1, Math.min(1, tile[i] / scale)),
        end = value < 0 ? below : above;
      const strength = Math.abs(value) ** (palette === 'ink' ? 1 : 0.75); // small numbers stay visible
      const at = ((top + Math.floor(i / w)) * canvas.width + left + (i % w)) * 4;
      for (let c = 0; c < 3; c++) image.data[at + c] = paper[c] + (end[c] - paper[c]) * strength;
      image.data[at + 3] = 255;
    }
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * A new canvas with tiles.
 * @param {ArrayLike<number>[]} tiles @param {number} w @param {number} columns @param {Palette} palette
 * @param {number} zoom @param {number} [most]
 */
const picture = (tiles, w, columns, palette, zoom, most) =>
  paintTiles(document.createElement('canvas'), tiles, w, columns, palette, zoom, most);

/**
 * The planes (h·w numbers each) of an image or of maps.
 * @param {Batch} batch @returns {Float64Array[]}
 */
const planes = (batch) =>
  Array.from({ length: batch.c }, (_, c) => batch.data.subarray(c * batch.h * batch.w, (c + 1) * batch.h * batch.w));

/**
 * A full symmetric matrix (d, d) from the pairs of its upper triangle; without a diagonal, that is 1.
 * @param {Float64Array} pairs @param {number} d @param {boolean} diagonal
 */
function fullMatrix(pairs, d, diagonal) {
  const full = new Float64Array(d * d);
  for (let a = 0, i = 0; a < d; a++) {
    if (!diagonal) full[a * d + a] = 1;
    for (let b = diagonal ? a : a + 1; b < d; b++, i++) full[a * d + b] = full[b * d + a] = pairs[i];
  }
  return full;
}

/**
 * Make an element.
 * @param {string} tag @param {Record<string, string>} [attributes] @param {(Node | string)[]} children
 */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** @param {string} id @returns {any} the element of that id */
const byId = (id) => document.getElementById(id);

/** A number of three digits, with a true minus. @param {number} value @param {number} [digits] */
const show = (value, digits = 3) =>
  (Object.is(Math.round(value * 10 ** digits), -0) ? 0 : value).toFixed(digits).replace('-', '−');

const MOST_BARS = 10;

/**
 * Rows of a bar chart: name, bar, number; of many classes, those with the largest numbers. Bars begin at 0, which moves to the right if there are negative numbers.
 * @param {HTMLElement} target @param {string[]} names @param {ArrayLike<number>} values @param {number} first emphasised
 * @param {number} [most] length of the axis
 */
function drawBars(target, names, values, first, most) {
  const low = Math.min(0, ...Array.from(values)),
    high = Math.max(most ?? 0, ...Array.from(values), low + 1e-9);
  const size = (/** @type {number} */ i) => Math.abs(values[i]);
  const largest = names
    .map((_, i) => i)
    .sort((a, b) => size(b) - size(a))
    .slice(0, MOST_BARS);
  names.forEach((name, i) => {
    if (!largest.includes(i)) return;
    const bar = make('i'),
      from = (Math.min(0, values[i]) - low) / (high - low);
    bar.style.left = `${100 * from}%`;
    bar.style.width = `${(100 * Math.abs(values[i])) / (high - low)}%`;
    const row = make(
      'div',
      { class: i === first ? 'first' : '' },
      make('span', { class: 'name' }, name),
      make('span', { class: 'track' }, bar),
      make('span', { class: 'value' }, show(values[i])),
    );
    target.append(row);
  });
}
