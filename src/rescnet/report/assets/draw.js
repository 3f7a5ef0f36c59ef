// What every section uses: the data, nodes, words for numbers, the tooltip. Text reaches the page as text only.
const root = document.documentElement;
root.dataset.errors = '0';
window.addEventListener('error', (event) => {
  root.dataset.errors = String(Number(root.dataset.errors) + 1);
  root.dataset.error = event.message;
  const trouble = document.getElementById('trouble');
  trouble.hidden = false;
  trouble.textContent = `A part of this page could not be drawn: ${event.message}`;
});

const DATA = JSON.parse(document.getElementById('data').textContent);
const NAMES = DATA.headline.classes;
const LAYERS = DATA.headline.layers;
const HOW_TO_GET_IMAGES = 'Write the page with a dataset: write_report(model, path, dataset), or rescnet report.';
const byId = (id) => document.getElementById(id);

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null) continue;
    if (key === 'style') for (const [name, set] of Object.entries(value)) made.style.setProperty(name, set);
    else if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}
const node = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const shape = (tag, attributes, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

const percent = (share, digits = 2) => `${(100 * share).toFixed(digits)} %`;
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

// Sentences into an element; those that do not apply are left out.
function say(id, ...sentences) {
  byId(id).append(sentences.filter(Boolean).join(' '));
}

// The tooltip: a title and rows of [colour, name, value].
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

// Charts are drawn to the width there is, and again when it changes.
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
