// Photos that nobody took: suns in the sky, and trees on a meadow, as PNG.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { deflateSync } from "node:zlib";

/** The side of a picture. */
const SIDE = 48;

/** The same numbers in the same order, from 0 to 1. */
function dice(seed) {
  let state = (seed * 7919 + 17) % 2147483647;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

/** The sum of a part of a PNG. */
function crc32(bytes) {
  let sum = -1;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}

/** The file of a picture whose pixels a function gives, by row and column. */
function png(pixel) {
  const rows = Array.from({ length: SIDE }, (_, row) => Buffer.from([0, ...Array.from({ length: SIDE }, (_, column) => pixel(row, column)).flat()]));
  const part = (name, bytes) => {
    const body = Buffer.concat([Buffer.from(name), bytes]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(bytes.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(SIDE, 0);
  head.writeUInt32BE(SIDE, 4);
  // Eight bits each of red, green and blue.
  head.set([8, 2], 8);
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), part("IHDR", head), part("IDAT", deflateSync(Buffer.concat(rows))), part("IEND", Buffer.alloc(0))]);
}

/** A picture of a class. */
export function photo(name, seed) {
  const roll = dice(seed);
  const [x, y, size] = [0.3 + 0.4 * roll(), 0.3 + 0.3 * roll(), 0.14 + 0.1 * roll()];
  return png((row, column) => {
    const [dx, dy] = [column / SIDE - x, row / SIDE - y];
    const grain = 14 * roll();
    if (name === "sun") return Math.hypot(dx, dy) < size ? [250, 210 - grain, 60] : [90, 140 + grain, 220];
    const isLeaf = dy > -size && dy < size && Math.abs(dx) < (dy + size) / 2;
    return isLeaf ? [30, 100 + grain, 40] : [130 + grain, 170, 110];
  });
}

/** A folder with a folder for each class. */
export function photos(folder, count) {
  for (const [at, name] of ["sun", "tree"].entries()) {
    mkdirSync(join(folder, name), { recursive: true });
    for (let each = 0; each < count; each += 1) writeFileSync(join(folder, name, `${each}.png`), photo(name, 1000 * at + each));
  }
}
