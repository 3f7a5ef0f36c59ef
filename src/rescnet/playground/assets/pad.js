/**
 * The drawing pad: strokes of a mouse, a finger or a pen, or pixels set with the keyboard.
 *
 * Strokes become a bitmap with four times the pixels of an image on each side. The ink in each 4×4 square is counted,
 * which is how the bundled digits were made.
 * @typedef {{x: number, y: number}[]} Stroke in fractions of the pad
 */
const FINER = 4,
  PEN = 0.085; // radius of the pen, of the side: as much ink as in the bundled digits

class Pad {
  /** @param {HTMLCanvasElement} canvas @param {number} h @param {number} w @param {(done: boolean) => void} changed */
  constructor(canvas, h, w, changed) {
    this.canvas = canvas;
    this.h = h;
    this.w = w;
    this.changed = changed;
    this.replaced = () => {};
    this.isLoaded = false;
    this.fit = true;
    /** @type {Stroke[]} */
    this.strokes = [];
    /** @type {Float64Array} ink 0 to 1 of a loaded picture, (channels, h, w) */
    this.base = new Float64Array(h * w);
    this.cursor = -1;
    canvas.addEventListener('pointerdown', (event) => this.begin(event));
    canvas.addEventListener('pointermove', (event) => this.extend(event));
    canvas.addEventListener('pointerup', () => this.end());
    canvas.addEventListener('pointercancel', () => this.end());
    canvas.addEventListener('keydown', (event) => this.key(event));
    canvas.addEventListener('blur', () => {
      this.cursor = -1;
      this.paint();
    });
    new ResizeObserver(() => this.paint()).observe(canvas);
    this.drawing = false;
  }

  get isEmpty() {
    return !this.strokes.length && this.base.every((value) => value === 0);
  }

  /** Show a picture. @param {Float64Array} ink (channels·h·w,), 0 to 1 */
  load(ink) {
    this.base = ink;
    this.strokes = [];
    this.isLoaded = true;
    this.paint();
  }

  clear() {
    this.load(new Float64Array(this.h * this.w));
  }

  /** Begin a new drawing where a picture was shown: strokes on top of it would spoil both. */
  replace() {
    const shown = !this.isEmpty;
    this.clear();
    this.isLoaded = false;
    if (shown) this.replaced();
  }

  /** @returns {Float64Array} ink of each pixel, 0 to 1, (channels·h·w,) */
  ink() {
    const drawn = this.strokes.length ? countInk(this.fitted(), this.h, this.w) : new Float64Array(this.h * this.w);
    return this.base.map((value, i) => Math.max(value, drawn[i % drawn.length]));
  }

  /** The strokes, moved and scaled to fill the frame if that is wanted. @returns {Stroke[]} */
  fitted() {
    if (!this.fit || this.base.some((value) => value > 0)) return this.strokes;
    const xs = this.strokes.flat().map((point) => point.x),
      ys = this.strokes.flat().map((point) => point.y);
    const left = Math.min(...xs),
      right = Math.max(...xs),
      top = Math.min(...ys),
      bottom = Math.max(...ys);
    const scale = Math.min(4, (1 - 2 * PEN) / Math.max(right - left, bottom - top, 1e-9));
    return this.strokes.map((stroke) =>
      stroke.map(({ x, y }) => ({
        x: 0.5 + (x - (left + right) / 2) * scale,
        y: 0.5 + (y - (top + bottom) / 2) * scale,
      })),
    );
  }

  /** @param {PointerEvent} event */
  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
  }

  /** @param {PointerEvent} event */
  begin(event) {
    if (event.button) return;
    this.canvas.setPointerCapture(event.pointerId);
    if (this.isLoaded) this.replace();
    this.drawing = true;
    this.cursor = -1;
    this.strokes.push([this.place(event)]);
    this.paint();
    this.changed(false);
  }

  /** @param {PointerEvent} event */
  extend(event) {
    if (!this.drawing) return;
    this.strokes[this.strokes.length - 1].push(this.place(event));
    this.paint();
    this.changed(false);
  }

  end() {
    if (!this.drawing) return;
    this.drawing = false;
    this.changed(true);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.w, ArrowDown: this.w }[event.key];
    if (step === undefined && event.key !== ' ') return;
    event.preventDefault();
    if (this.cursor < 0) this.cursor = Math.floor(this.h / 2) * this.w + Math.floor(this.w / 2);
    else if (step !== undefined) {
      const beside =
        Math.abs(step) === 1 && Math.floor((this.cursor + step) / this.w) !== Math.floor(this.cursor / this.w);
      if (!beside && this.cursor + step >= 0 && this.cursor + step < this.h * this.w) this.cursor += step;
    }
    if (event.key === ' ') {
      const size = this.h * this.w,
        ink = this.ink(),
        value = ink[this.cursor] > 0 ? 0 : 1;
      for (let i = this.cursor; i < ink.length; i += size) ink[i] = value;
      this.load(ink);
      this.isLoaded = false; // strokes may follow
      this.changed(true);
    }
    this.paint();
  }

  paint() {
    const side = Math.round(this.canvas.clientWidth * (globalThis.devicePixelRatio || 1)) || 1;
    if (this.canvas.width !== side) this.canvas.width = this.canvas.height = side;
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext('2d'));
    const cell = side / Math.max(this.h, this.w),
      paper = colour('--faint'),
      ink = colour('--ink'),
      size = this.h * this.w;
    context.clearRect(0, 0, side, side);
    for (let i = 0; i < size; i++) {
      const value = [0, 1, 2].map((c) => this.base[c * size + i] ?? this.base[i]);
      if (value.every((part) => part === 0)) continue;
      const grey = this.base.length === size;
      const mixed = value.map((part, c) => Math.round(grey ? paper[c] + (ink[c] - paper[c]) * part : 255 * part));
      context.fillStyle = `rgb(${mixed.join()})`;
      context.fillRect(
        Math.floor((i % this.w) * cell),
        Math.floor(Math.floor(i / this.w) * cell),
        Math.ceil(cell),
        Math.ceil(cell),
      );
    }
    context.lineWidth = 2 * PEN * side;
    context.lineCap = context.lineJoin = 'round';
    context.strokeStyle = `rgb(${ink.join()})`;
    for (const stroke of this.strokes) {
      context.beginPath();
      stroke.forEach(({ x, y }) => context.lineTo(x * side, y * side));
      if (stroke.length === 1) context.lineTo(stroke[0].x * side + 0.1, stroke[0].y * side);
      context.stroke();
    }
    if (this.cursor >= 0) {
      context.strokeStyle = `rgb(${colour('--accent').join()})`;
      context.lineWidth = 3;
      context.strokeRect((this.cursor % this.w) * cell, Math.floor(this.cursor / this.w) * cell, cell, cell);
    }
  }
}

/** Count the ink of strokes in each pixel, 0 to 1. @param {Stroke[]} strokes @param {number} h @param {number} w */
function countInk(strokes, h, w) {
  const rows = h * FINER,
    columns = w * FINER,
    bitmap = new Uint8Array(rows * columns),
    radius = PEN * Math.max(rows, columns);
  for (const stroke of strokes) {
    stroke.forEach((point, i) => {
      const from = stroke[Math.max(0, i - 1)];
      const steps = 1 + Math.ceil(Math.hypot((point.x - from.x) * columns, (point.y - from.y) * rows));
      for (let s = 1; s <= steps; s++) {
        const x = (from.x + ((point.x - from.x) * s) / steps) * columns,
          y = (from.y + ((point.y - from.y) * s) / steps) * rows;
        for (let r = Math.max(0, Math.floor(y - radius)); r < Math.min(rows, y + radius); r++) {
          for (let c = Math.max(0, Math.floor(x - radius)); c < Math.min(columns, x + radius); c++) {
            if ((r + 0.5 - y) ** 2 + (c + 0.5 - x) ** 2 <= radius * radius) bitmap[r * columns + c] = 1;
          }
        }
      }
    });
  }
  const ink = new Float64Array(h * w);
  bitmap.forEach((set, i) => {
    if (set) ink[Math.floor(Math.floor(i / columns) / FINER) * w + Math.floor((i % columns) / FINER)] += 1 / FINER ** 2;
  });
  return ink;
}
