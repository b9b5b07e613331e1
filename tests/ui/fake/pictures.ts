// Pictures of flowers, and a model that says what they show: right for the most part, and sometimes by what stands beside them.

import type { Channel } from "@tauri-apps/api/core";
import type { CheckupView, ClassView, EventsView, Example, FoundPicturesView, PictureView, PredictionView } from "../../../ui/src/api";
import { flower, FLOWER_NAMES, glow } from "./drawn";
import { lastOf, refuse, type Some, wait } from "./scene";

/** Held-out pictures by what they are (rows) and what they were said to be (columns). */
const COUNTS = [
  [120, 5, 1, 1, 0],
  [4, 168, 1, 5, 2],
  [2, 1, 112, 0, 13],
  [1, 5, 0, 132, 2],
  [1, 1, 14, 1, 142],
];
const CLASS_COUNTS = [633, 898, 641, 699, 799];
const CARS = ["convertible with the roof down", "pickup truck"];
/** A hundred classes, with names as they come. */
const HUNDRED = Array.from({ length: 100 }, (_, at) => ["apple", "aquarium fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle"][at % 10]! + (at < 10 ? "" : ` ${Math.floor(at / 10) + 1}`));

const isCars = (path: string) => /cars/.test(path);
const isMany = (path: string) => /hundred/.test(path);
const isPictures = (path: string) => /flowers|cars|hundred|damaged-photos/.test(path);
const namesOf = (path: string): readonly string[] => (isCars(path) ? CARS : isMany(path) ? HUNDRED : FLOWER_NAMES);

function classesOf(path: string): ClassView[] {
  const counts = isCars(path) ? [412, 38] : isMany(path) ? HUNDRED.map((_, at) => 600 - ((at * 37) % 90)) : CLASS_COUNTS;
  return namesOf(path).map((name, at) => ({ name, train: counts[at] ?? 0, heldOut: 0, test: isMany(path) ? 100 : 0 }));
}

function pictureOf(path: string, at: number, only: number | undefined, side: number): PictureView {
  const names = namesOf(path);
  const of = only ?? at % names.length;
  const name = names[of]!;
  const number = 1000 + at * 7;
  return { name: `${name}/IMG_${number}.jpg`, class: name, part: "train", width: 4032, height: 3024, thumb: flower(of, at * 13 + of, side) };
}

/** Some pictures of each cell: three at most of a mistake, one of each class that is right. */
function flowersKept(): Example[] {
  return COUNTS.flatMap((row, is) =>
    row.flatMap((found, said) =>
      Array.from({ length: Math.min(found, is === said ? 1 : 3) }, (_, at) => ({ row: is, column: said, title: `${FLOWER_NAMES[is]}/IMG_${3000 + 100 * is + 10 * said + at}.jpg`, confidence: (is === said ? 0.41 : 0.97) - at / 9, ...flower(is, 31 * is + 7 * said + at, 32) })),
    ),
  );
}

/** What a run of flowers says of held-out pictures after a step: fewer mistakes the later it is. */
export function picturesShown(step: number, of: number): EventsView["exhibits"] {
  const share = Math.min(1, step / of);
  const worse = (row: number[], at: number) => row.map((count, as) => (as === at ? Math.round(count * (0.32 + 0.68 * share)) : Math.round(count * (1 + 3 * (1 - share)) + (1 - share) * 6)));
  const mistakes: [number, number, number, number, [number, number]][] = [
    [4, 2, 0.98, 31, [0, 0]],
    [2, 4, 0.97, 44, [0, 0]],
    [1, 3, 0.96, 52, [0.02, 0]],
    [2, 4, 0.94, 67, [0.06, 0.24]],
    [0, 1, 0.93, 71, [-0.2, 0.2]],
    [4, 2, 0.91, 88, [0, 0.04]],
    [3, 1, 0.9, 95, [0, 0]],
    [1, 0, 0.88, 103, [0.26, 0.24]],
  ];
  return [
    { step, exhibit: { kind: "confusion", title: "Held-out pictures", classes: [...FLOWER_NAMES], counts: COUNTS.map(worse), examples: flowersKept() } },
    ...mistakes.map(([is, said, confidence, seed, beside], at): EventsView["exhibits"][number] => ({
      step,
      exhibit: { kind: "image", title: `Most confident mistakes: ${FLOWER_NAMES[is]}/IMG_${2000 + 17 * at}.jpg`, label: FLOWER_NAMES[said]!, expected: FLOWER_NAMES[is]!, confidence, map: glow(seed, beside), ...flower(is, seed) },
    })),
  ];
}

/** The same of a hundred classes, which has no pictures. */
export function hundredShown(step: number): EventsView["exhibits"] {
  const counts = HUNDRED.map((_, of) => HUNDRED.map((_, as) => (as === of ? 74 - ((of * 13) % 31) : (of * 7 + as * 11) % 23 === 0 ? 1 + ((of + as) % 5) : Math.floor(of / 10) === Math.floor(as / 10) ? (of * as) % 3 : 0)));
  return [{ step, exhibit: { kind: "confusion", title: "Held-out pictures", classes: HUNDRED, counts } }];
}

/** The same of two classes with long names, of which few are held out. */
export function carsShown(step: number): EventsView["exhibits"] {
  const [open, truck] = CARS as [string, string];
  return [
    { step, exhibit: { kind: "confusion", title: "Held-out pictures", classes: CARS, counts: [[19, 3], [9, 9]] } },
    { step, exhibit: { kind: "image", title: "pickup truck/a-photograph-with-quite-a-long-name-taken-in-the-street-2026-11-02.jpg", label: open, expected: truck, confidence: 0.997, map: glow(12, [0.2, 0.2]), ...flower(3, 12, 40) } },
    { step, exhibit: { kind: "image", title: "convertible with the roof down/7.jpg", label: truck, expected: open, confidence: 0.61, map: null, ...flower(1, 14, 40) } },
  ];
}

/** What a run of pictures measured. */
export function picturesMeasured(steps: number): EventsView["evaluations"] {
  return Array.from({ length: 9 }, (_, at) => {
    const done = at / 8;
    const accuracy = 0.884 + 0.034 * (1 - Math.exp(-3.2 * done)) / (1 - Math.exp(-3.2)) + (at === 6 ? 0.002 : 0);
    const share = (name: string, label: string, value: number, of: number | null) => ({ name, label, value, higherIsBetter: true, of });
    return { step: Math.round(done * steps), loss: 0.41 - 0.12 * done ** 0.5, metrics: [share("accuracy", "accuracy", accuracy, 734), share("macro_recall", "macro recall", accuracy - 0.002, null)], best: at > 0 };
  });
}

const findings = (path: string): CheckupView["findings"] => {
  const pair = (one: number, other: number): FoundPicturesView => ({ pictures: [pictureOf(path, one, one % 5, 48), { ...pictureOf(path, one, one % 5, 48), name: `${FLOWER_NAMES[other % 5]}/copy of IMG_${1000 + one}.jpg`, class: FLOWER_NAMES[other % 5]! }], problem: null });
  const lost = (name: string, problem: string): FoundPicturesView => ({ pictures: [{ name, class: "", part: "train", width: 0, height: 0, thumb: null }], problem });
  return [
    {
      kind: "unread",
      count: 3,
      shown: [
        lost("rose/IMG_0412.HEIC", "is HEIC, which can’t be read here; convert it to JPEG or PNG: on a Mac with `sips -s format jpeg`, elsewhere with `heif-convert` or `magick`"),
        lost("tulip/IMG_2210.jpg", "is cut off: the end of the JPEG is missing; copy or download it again"),
        lost("tulip/notes.jpg", "is no picture that can be read: it begins like none of JPEG, PNG, GIF, WebP, BMP, TIFF and PNM"),
      ],
    },
    { kind: "two_classes", count: 2, shown: [pair(2, 4), pair(4, 2)] },
    { kind: "identical", count: 14, shown: Array.from({ length: 9 }, (_, at) => pair(at + 5, at + 5)) },
    { kind: "tiny", count: 1, shown: [{ pictures: [{ ...pictureOf(path, 9, 0, 24), width: 24, height: 18 }], problem: null }] },
  ];
};

let classes: readonly string[] = FLOWER_NAMES;
let isOpen = false;
let isStopped = false;

function predicted(path: string | null, name: string, at: number): PredictionView {
  if (/\.(txt|heic)$/i.test(name)) return { name, path, problem: "is no picture that can be read: it begins like none of JPEG, PNG, GIF, WebP, BMP, TIFF and PNM", said: null };
  const first = Math.max(0, classes.findIndex((each) => name.startsWith(each)));
  const of = name.includes("unsure") ? Math.max(0.41, 1.12 / classes.length) : 0.912 - 0.05 * (at % 5);
  const order = [first, ...classes.map((_, each) => each).filter((each) => each !== first)].slice(0, 5);
  const rest = (1 - of) * (classes.length > 5 ? 0.9 : 1);
  const weights = order.map((_, place) => (place === 0 ? 0 : 0.5 ** place));
  const sum = weights.reduce((all, each) => all + each, 0);
  const ranked = order.map((each, place) => ({ class: classes[each]!, probability: place === 0 ? of : (rest * weights[place]!) / sum, map: glow(at * 13 + first, place === 0 ? [0, 0] : [0.3 - 0.12 * place, 0.34 - 0.1 * place]) }));
  return { name, path, problem: null, said: { ranked, millis: 11.4 + at, width: 4032, height: 3024, shown: flower(first, at * 13 + first, 224) } };
}

export const pictureAnswers = {
  hasPictures: (path) => isPictures(path),

  pictures: async (files, name, from, count) => {
    const [path = ""] = files;
    await wait(30);
    if (!isPictures(path)) return null;
    if (/damaged/.test(path)) refuse("could not read the pictures: there is no picture that can be read; the first is empty", "look into the folder", null);
    const all = classesOf(path);
    const only = name === null ? undefined : all.findIndex((each) => each.name === name);
    const matching = all.filter((_, at) => only === undefined || at === only).reduce((sum, each) => sum + each.train + each.test, 0);
    const shown = Math.max(0, Math.min(count, matching - from));
    const side = isMany(path) ? 32 : 96;
    return { classes: all, sizes: isMany(path) ? [[32, 32], [32, 32]] : [[24, 18], [4032, 3024]], isGrey: false, unread: isCars(path) || isMany(path) ? 0 : 3, hasOwnHeldOut: false, matching, pictures: Array.from({ length: shown }, (_, at) => pictureOf(path, from + at, only, side)) };
  },

  checkPictures: async (files) => {
    const [path = ""] = files;
    await wait(60);
    const all = classesOf(path);
    if (isCars(path)) return { pictures: 450, imbalance: [all[0]!, all[1]!], comparedNear: true, findings: [] };
    if (isMany(path)) return { pictures: 60_000, imbalance: null, comparedNear: true, findings: [] };
    return { pictures: 3670, imbalance: null, comparedNear: true, findings: findings(path) };
  },

  openClassifier: async (name) => {
    await wait(60);
    if (/gone/.test(name)) refuse("the checkpoint does not say what its network is", "`classifier.json` is missing in it; resume the run for a few steps, and what it saves then can be opened");
    isOpen = true;
    classes = isCars(name) ? CARS : isMany(name) ? HUNDRED : FLOWER_NAMES;
    return { title: isMany(name) ? "airbench94, 32 × 32 pixels" : "ResNet-18, 224 × 224 pixels", classes: [...classes], weights: 11_179_077, warnings: [] };
  },
  closeClassifier: () => void ((isStopped = true), (isOpen = false)),

  predictFiles: async (files, found, predictedOne) => {
    if (!isOpen) refuse("no classifier is open");
    isStopped = false;
    const names = files.flatMap((path) => (/\.\w+$/.test(path) ? [path] : [...Array.from({ length: 11 }, (_, at) => `${path}/${FLOWER_NAMES[at % 5]}-${at + 1}.jpg`), `${path}/notes.txt`]));
    if (/empty$/.test(files[0] ?? "")) refuse("there is no picture in the folder");
    (found as unknown as Channel<number>).onmessage(names.length);
    let asked = 0;
    for (const path of names) {
      if (isStopped) break;
      await wait(8);
      (predictedOne as unknown as Channel<PredictionView>).onmessage(predicted(path, lastOf(path), asked));
      asked += 1;
    }
    return asked;
  },
  predictPasted: async (name) => {
    await wait(10);
    return predicted(null, name, 3);
  },
  stopPredicting: () => void (isStopped = true),

  pickPictures: () => ["/Users/mira/Pictures/tulip-unsure.jpg"],
} satisfies Some;
