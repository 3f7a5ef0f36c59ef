/** Matrices are rows after rows in a Float64Array. */

/**
 * Sum of products of two stretches of numbers.
 * @param {Float64Array} a @param {number} i @param {Float64Array} b @param {number} j @param {number} count
 */
function dot(a, i, b, j, count) {
  let s0 = 0,
    s1 = 0,
    s2 = 0,
    s3 = 0;
  const whole = count & ~3;
  for (let k = 0; k < whole; k += 4) {
    s0 += a[i + k] * b[j + k];
    s1 += a[i + k + 1] * b[j + k + 1];
    s2 += a[i + k + 2] * b[j + k + 2];
    s3 += a[i + k + 3] * b[j + k + 3];
  }
  for (let k = whole; k < count; k++) s0 += a[i + k] * b[j + k];
  return s0 + s1 + (s2 + s3);
}

/**
 * Factorise a symmetric matrix (n, n) in place: its lower triangle becomes L of L Lᵀ. Returns false if it has none.
 * @param {Float64Array} a @param {number} n
 */
function cholesky(a, n) {
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      const rest = a[i * n + j] - dot(a, i * n, a, j * n, j);
      if (j < i) a[i * n + j] = rest / a[j * n + j];
      else if (rest > 0 && rest < Infinity) a[i * n + i] = Math.sqrt(rest);
      else return false;
    }
  }
  return true;
}

/**
 * Solve L Lᵀ x = b in place of b (n,).
 * @param {Float64Array} factor @param {number} n @param {Float64Array} b
 */
function choleskySolve(factor, n, b) {
  for (let i = 0; i < n; i++) b[i] = (b[i] - dot(factor, i * n, b, 0, i)) / factor[i * n + i];
  for (let i = n - 1; i >= 0; i--) {
    b[i] /= factor[i * n + i];
    for (let k = 0; k < i; k++) b[k] -= factor[i * n + k] * b[i];
  }
  return b;
}

/**
 * Eigenvectors of a symmetric matrix (n, n), largest eigenvalue first: Householder, then implicit QL (EISPACK).
 * @param {Float64Array} matrix @param {number} n
 * @returns {{values: Float64Array, vectors: Float64Array}} vectors are rows
 */
function eigenvectors(matrix, n) {
  const v = Array.from({ length: n }, (_, i) => matrix.slice(i * n, i * n + n));
  const d = v[n - 1].slice(),
    e = new Float64Array(n);
  tridiagonalise(v, d, e, n);
  diagonalise(v, d, e, n);
  const order = Array.from(d.keys()).sort((a, b) => d[b] - d[a]);
  const vectors = new Float64Array(n * n);
  order.forEach((from, to) => {
    for (let i = 0; i < n; i++) vectors[to * n + i] = v[from][i];
  });
  return { values: Float64Array.from(order, (i) => d[i]), vectors };
}

/**
 * Reduce a symmetric matrix to a tridiagonal one: d is its diagonal, e what is beside it. In the end the rows of v are
 * the columns of the transformation, so that the rotations that follow read whole rows.
 * @param {Float64Array[]} v @param {Float64Array} d @param {Float64Array} e @param {number} n
 */
function tridiagonalise(v, d, e, n) {
  for (let i = n - 1; i > 0; i--) {
    let scale = 0,
      h = 0;
    for (let k = 0; k < i; k++) scale += Math.abs(d[k]);
    if (scale === 0) {
      e[i] = d[i - 1];
      for (let j = 0; j < i; j++) {
        d[j] = v[i - 1][j];
        v[i][j] = 0;
        v[j][i] = 0;
      }
    } else {
      for (let k = 0; k < i; k++) {
        d[k] /= scale;
        h += d[k] * d[k];
      }
      const f = d[i - 1],
        g = f > 0 ? -Math.sqrt(h) : Math.sqrt(h);
      e[i] = scale * g;
      h -= f * g;
      d[i - 1] = f - g;
      e.fill(0, 0, i);
      for (let j = 0; j < i; j++) {
        const f = d[j];
        let g = e[j] + v[j][j] * f;
        v[j][i] = f;
        for (let k = j + 1; k < i; k++) {
          g += v[k][j] * d[k];
          e[k] += v[k][j] * f;
        }
        e[j] = g;
      }
      let sum = 0;
      for (let j = 0; j < i; j++) {
        e[j] /= h;
        sum += e[j] * d[j];
      }
      const half = sum / (h + h);
      for (let j = 0; j < i; j++) e[j] -= half * d[j];
      for (let j = 0; j < i; j++) {
        for (let k = j; k < i; k++) v[k][j] -= d[j] * e[k] + e[j] * d[k];
        d[j] = v[i - 1][j];
        v[i][j] = 0;
      }
    }
    d[i] = h;
  }
  for (let i = 0; i < n - 1; i++) {
    v[n - 1][i] = v[i][i];
    v[i][i] = 1;
    const h = d[i + 1];
    if (h !== 0) {
      for (let k = 0; k <= i; k++) d[k] = v[k][i + 1] / h;
      for (let j = 0; j <= i; j++) {
        let g = 0;
        for (let k = 0; k <= i; k++) g += v[k][i + 1] * v[k][j];
        for (let k = 0; k <= i; k++) v[k][j] -= g * d[k];
      }
    }
    for (let k = 0; k <= i; k++) v[k][i + 1] = 0;
  }
  for (let j = 0; j < n; j++) {
    d[j] = v[n - 1][j];
    v[n - 1][j] = 0;
  }
  v[n - 1][n - 1] = 1;
  e[0] = 0;
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < i; j++) {
      const held = v[i][j];
      v[i][j] = v[j][i];
      v[j][i] = held;
    }
  }
}

/**
 * Rotate a tridiagonal matrix into a diagonal one, d; the rows of v turn into eigenvectors.
 * @param {Float64Array[]} v @param {Float64Array} d @param {Float64Array} e @param {number} n
 */
function diagonalise(v, d, e, n) {
  e.copyWithin(0, 1);
  e[n - 1] = 0;
  let shift = 0,
    largest = 0;
  for (let l = 0; l < n; l++) {
    largest = Math.max(largest, Math.abs(d[l]) + Math.abs(e[l]));
    let m = l;
    while (m < n - 1 && Math.abs(e[m]) > Number.EPSILON * largest) m++;
    while (m > l && Math.abs(e[l]) > Number.EPSILON * largest) {
      const before = d[l],
        p = (d[l + 1] - before) / (2 * e[l]),
        r = p < 0 ? -Math.hypot(p, 1) : Math.hypot(p, 1);
      d[l] = e[l] / (p + r);
      d[l + 1] = e[l] * (p + r);
      const h = before - d[l],
        after = d[l + 1],
        beside = e[l + 1];
      for (let i = l + 2; i < n; i++) d[i] -= h;
      shift += h;
      let q = d[m],
        c = 1,
        c2 = 1,
        c3 = 1,
        s = 0,
        s2 = 0;
      for (let i = m - 1; i >= l; i--) {
        c3 = c2;
        c2 = c;
        s2 = s;
        const g = c * e[i],
          k = c * q,
          length = Math.hypot(q, e[i]);
        e[i + 1] = s * length;
        s = e[i] / length;
        c = q / length;
        q = c * d[i] - s * g;
        d[i + 1] = k + s * (c * g + s * d[i]);
        const low = v[i],
          high = v[i + 1];
        for (let j = 0; j < n; j++) {
          const held = high[j];
          high[j] = s * low[j] + c * held;
          low[j] = c * low[j] - s * held;
        }
      }
      q = (-s * s2 * c3 * beside * e[l]) / after;
      e[l] = s * q;
      d[l] = c * q;
    }
    d[l] += shift;
    e[l] = 0;
  }
}
