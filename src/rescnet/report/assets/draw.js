// Helpers of all sections: data, elements, number formats, tooltip. Data is inserted as text only, never as HTML.
const root = document.documentElement;
root.dataset.errors = '0';
window.addEventListener('error', (event) => {
  root.dataset.errors = String(Number(root.dataset.errors) + 1);
  root.dataset.error = event.message;
  const box = document.getElementById('error');
  box.hidden = false;
  box.textContent = `Part of this report could not be drawn: ${event.message}`;
});

const DATA = JSON.parse(document.getElementById('data').textContent);
const NAMES = DATA.summary.classes;
const LAYERS = DATA.summary.layers;
const NEEDS_IMAGES = 'This needs images; the note at the top says how to add some.';
const byId = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null) continue;
    if (key === 'style') for (const [name, set] of Object.entries(value)) element.style.setProperty(name, set);
    else if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}
const node = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const shape = (tag, attributes, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

const percent = (share, digits = 2) => `${(100 * share).toFixed(digits)} %`;
const interval = ([low, high]) => `95 % interval ${(100 * low).toFixed(1)} to ${percent(high, 1)}`;
const intervalAt = (split, layer) => (DATA.intervals[split] ? `, ${interval(DATA.intervals[split][layer - 1])}` : '');
const count = (number) => number.toLocaleString('en-US');
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? '' : 's'}`;
const signed = (number, digits = 2) => (number < 0 ? '−' : '+') + Math.abs(number).toFixed(digits);
const minus = (number, digits = 2) => (number < 0 ? '−' : '') + Math.abs(number).toFixed(digits);
const seconds = (time) =>
  time >= 100
    ? `${Math.round(time)} s`
    : time >= 1
      ? `${time.toFixed(1)} s`
      : `${(1000 * time).toFixed(time < 0.01 ? 1 : 0)} ms`;
const tickSeconds = (time) => (time ? `${+time.toPrecision(3)} s` : '0');
const megabytes = (bytes) => (bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toFixed(0)} MB`);

function table(heads, rows, numbers = []) {
  const kind = (column) => (numbers.includes(column) ? 'number' : null);
  return node(
    'table',
    null,
    heads &&
      node(
        'thead',
        null,
        node(
          'tr',
          null,
          heads.map((head, i) => node('th', { class: kind(i), scope: 'col' }, head)),
        ),
      ),
    node(
      'tbody',
      null,
      rows.map((row) =>
        node(
          'tr',
          null,
          row.map((cell, i) => node('td', { class: kind(i) }, cell)),
        ),
      ),
    ),
  );
}

// Append sentences to an element; false ones are skipped.
function addText(id, ...sentences) {
  byId(id).append(sentences.filter(Boolean).join(' '));
}

// Tooltip with a title and rows of [colour, name, value].
const tip = byId('tip');
function showTip(x, y, title, rows) {
  tip.replaceChildren(
    node('b', null, title),
    ...rows.map(([colour, name, value]) =>
      node(
        'div',
        null,
        node('span', null, colour ? node('i', { style: { background: colour } }) : null, name),
        node('span', null, value),
      ),
    ),
  );
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 16 + box.width > window.innerWidth ? x - 16 - box.width : x + 16;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 14, window.innerHeight - box.height - 4))}px`;
}
function hideTip() {
  tip.hidden = true;
}

// Charts fit the window width and are drawn again when it changes.
const drawings = [];
function drawing(draw) {
  drawings.push(draw);
  draw();
}
let lastWidth = window.innerWidth;
window.addEventListener('resize', () => {
  if (window.innerWidth === lastWidth) return;
  lastWidth = window.innerWidth;
  drawings.forEach((draw) => draw());
});
