/** The random numbers of torch.Generator on a CPU: MT19937, so that draws are those of Python. */
class TorchRandom {
  /** @param {number} seed a whole number below 2**53; its lowest 32 bits count */
  constructor(seed) {
    this.state = new Uint32Array(624);
    this.state[0] = seed % 2 ** 32;
    for (let i = 1; i < 624; i++) {
      const last = this.state[i - 1] ^ (this.state[i - 1] >>> 30);
      this.state[i] = Math.imul(1812433253, last) + i;
    }
    this.place = 624;
  }

  /** @returns {number} 32 random bits */
  bits() {
    const s = this.state;
    if (this.place === 624) {
      for (let i = 0; i < 624; i++) {
        const y = (s[i] & 0x80000000) | (s[(i + 1) % 624] & 0x7fffffff);
        s[i] = s[(i + 397) % 624] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
      }
      this.place = 0;
    }
    let y = s[this.place++];
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  /**
   * Like torch.randint(high, (count,)).
   * @param {number} high @param {number} count
   */
  integers(high, count) {
    return Uint32Array.from({ length: count }, () => this.bits() % high);
  }

  /**
   * Like torch.rand(count, dtype=torch.float64): 53 random bits each.
   * @param {number} count
   */
  uniform(count) {
    return Float64Array.from({ length: count }, () => ((this.bits() & 0x1fffff) * 2 ** 32 + this.bits()) / 2 ** 53);
  }
}
