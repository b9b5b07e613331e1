// Pictures of flowers that nobody photographed, drawn pixel by pixel, and what a network would see in them.

import type { HeatMap, PixelsView } from "../../../ui/src/api";
import { base64Of } from "../../../ui/src/components/pixels";

type Colour = [number, number, number];

interface Flower {
  name: string;
  petals: number;
  /** How far petals reach beyond what joins them. */
  depth: number;
  petal: Colour;
  edge: Colour;
  middle: Colour;
  /** How large the middle is beside all of it. */
  heart: number;
}

const FLOWERS: readonly Flower[] = [
  { name: "daisy", petals: 14, depth: 0.5, petal: [244, 243, 238], edge: [222, 221, 214], middle: [236, 178, 42], heart: 0.26 },
  { name: "dandelion", petals: 26, depth: 0.22, petal: [246, 208, 50], edge: [226, 172, 26], middle: [226, 160, 20], heart: 0.4 },
  { name: "rose", petals: 5, depth: 0.16, petal: [206, 44, 74], edge: [150, 24, 54], middle: [126, 16, 46], heart: 0.36 },
  { name: "sunflower", petals: 18, depth: 0.36, petal: [240, 172, 32], edge: [206, 128, 18], middle: [86, 52, 26], heart: 0.46 },
  { name: "tulip", petals: 3, depth: 0.3, petal: [232, 110, 58], edge: [196, 72, 40], middle: [214, 92, 48], heart: 0.2 },
];

export const FLOWER_NAMES = FLOWERS.map(({ name }) => name);

/** The same numbers in the same order, from 0 to 1. */
function dice(seed: number) {
  let state = (seed * 7919 + 17) % 2147483647;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

const mix = (one: Colour, other: Colour, share: number): Colour => [0, 1, 2].map((at) => one[at]! + (other[at]! - one[at]!) * share) as Colour;

/** Where a flower stands in its picture. */
function placeOf(seed: number) {
  const roll = dice(seed + 1);
  return { x: 0.42 + 0.16 * roll(), y: 0.36 + 0.14 * roll(), size: 0.25 + 0.1 * roll(), turn: 6.28 * roll(), light: roll(), ground: roll() };
}

/** A flower of a class, by its place among the names, in a picture of so many pixels. */
export function flower(kind: number, seed: number, side = 64): PixelsView {
  const { petals, depth, petal, edge, middle, heart } = FLOWERS[kind % FLOWERS.length]!;
  const { x, y, size, turn, light, ground } = placeOf(seed);
  const roll = dice(seed + 99);
  const bytes = new Uint8Array(3 * side * side);
  const [sky, soil]: [Colour, Colour] = [mix([172, 190, 168], [206, 212, 190], light), mix([58, 84, 50], [92, 104, 62], ground)];
  for (let row = 0; row < side; row += 1) {
    for (let column = 0; column < side; column += 1) {
      const [across, down] = [(column + 0.5) / side, (row + 0.5) / side];
      let colour = mix(sky, soil, Math.min(1, Math.max(0, (down - 0.12) * 1.25)));
      const blade = Math.sin(40 * across + 9 * Math.sin(7 * down + turn)) * 0.5 + 0.5;
      if (down > 0.55 - 0.2 * blade) colour = mix(colour, [70, 112, 58], 0.35 * blade);
      const bend = x + 0.05 * Math.sin(5 * (down - y));
      if (down > y && Math.abs(across - bend) < 0.018) colour = [72, 118, 60];
      const [dx, dy] = [across - x, (down - y) * (petals === 3 ? 0.82 : 1)];
      const far = Math.hypot(dx, dy) / size;
      const angle = Math.atan2(dy, dx) + turn * (petals === 3 ? 0 : 1);
      const reach = 1 - depth + depth * Math.abs(Math.cos((petals / 2) * angle + (petals === 3 ? Math.PI / 4 : 0)));
      if (far < reach) {
        colour = mix(petal, edge, Math.min(1, (far / reach) ** 2 * 0.9 + 0.25 * Math.abs(Math.sin(petals * angle))));
        if (far < heart) colour = mix(middle, edge, 0.3 * (far / heart));
      }
      const grain = 10 * (roll() - 0.5);
      bytes.set(colour.map((value) => Math.max(0, Math.min(255, value + grain))), 3 * (row * side + column));
    }
  }
  return { width: side, pixels: base64Of(bytes) };
}

/** What speaks for a class in the picture of a seed: the flower, or something `beside` it. */
export function glow(seed: number, beside: [number, number] = [0, 0], places = 7): HeatMap {
  const { x, y, size } = placeOf(seed);
  const strengths = new Uint8Array(places * places);
  let most = 0;
  const values = Array.from({ length: places * places }, (_, at) => {
    const [dx, dy] = [((at % places) + 0.5) / places - x - beside[0], (Math.floor(at / places) + 0.5) / places - y - beside[1]];
    const value = Math.exp(-(dx * dx + dy * dy) / (2 * (0.55 * size) ** 2));
    most = Math.max(most, value);
    return value;
  });
  values.forEach((value, at) => (strengths[at] = value < 0.06 * most ? 0 : Math.round((255 * value) / most)));
  return { rows: places, columns: places, strengths: base64Of(strengths) };
}
