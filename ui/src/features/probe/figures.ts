// Figures of a study of probes, as they are drawn and said.

import type { CalibrationScale, Confusion, CrossValidated, Difference, Estimate, LabelReport, ProbeFigures, ProbeReport, StatesPosition } from "../../api";
import { count } from "../../lib/format";

type Maybe = number | null | undefined;

/** The chance of a difference, corrected for the number of labels, below which it has a star. */
const STARRED = 0.05;

export const three = (value: Maybe): string => (value == null ? "–" : value.toFixed(3));
export const two = (value: Maybe): string => (value == null ? "–" : minus(value.toFixed(2)));

/** A number with a minus of its width. */
const minus = (text: string): string => text.replace("-", "−");
/** A difference, with its sign. */
export const signed = (value: Maybe): string => (value == null ? "–" : `${value < 0 ? "" : "+"}${minus(value.toFixed(3))}`);

/** Where a figure lies: `0.932–0.968`. */
export const between = ({ interval }: Estimate): string => (interval ? `${three(interval.low)}–${three(interval.high)}` : "");

/** A figure, and where it lies. */
export const withInterval = (estimate: Estimate): string => (estimate.interval ? `${three(estimate.value)} (${between(estimate)})` : three(estimate.value));

/** Where a difference lies. */
export const differenceText = ({ interval }: Difference): string => `${minus(three(interval.low))} to ${minus(three(interval.high))}`;

/** Which way a difference goes that its interval does not have 0 in; 0 where nobody can say. */
export function clearly(difference: Difference | null): -1 | 0 | 1 {
  const { low, high } = difference?.interval ?? {};
  return low != null && low > 0 ? 1 : high != null && high < 0 ? -1 : 0;
}

/** Whether a label’s probe knows more than its words, also when all labels are counted. */
export const isStarred = ({ over_words, corrected }: LabelReport): boolean => corrected != null && corrected < STARRED && (over_words?.difference ?? 0) > 0;

/** What a site is called where there is little room: the number of its block, or a letter. */
export const shortSite = (site: string): string => /^block\.(\d+)$/.exec(site)?.[1] ?? site.charAt(0);

/** The title and the rest of what a study says first. */
export function headlineOf({ headline }: ProbeReport): { title: string; detail: string } {
  const end = headline.indexOf(". ");
  return end < 0 ? { title: headline, detail: "" } : { title: headline.slice(0, end + 1), detail: headline.slice(end + 2) };
}

/** The row of all labels together, which has no label’s name. */
export const ALL = "";

/** What is known at each site, of a label or of all together. */
export interface Curve {
  name: string;
  points: { validation: Maybe; test: Estimate; is_as_good: boolean; words_do_as_well: boolean }[];
  words: Estimate | undefined;
  /** The site that was chosen on validation rows. */
  site: string | undefined;
}

export function curveOf({ label, curve, words, probe }: LabelReport): Curve {
  return { name: label, points: curve, words: words?.auc, site: probe?.site };
}

/** The means over labels. Whether their words do as well is known of the chosen site; of the others, whether the interval meets them. */
export function meanCurve({ sites, words, site, over_words }: ProbeReport): Curve {
  const meets = ({ interval, value }: Estimate) => words !== null && (interval?.low ?? value ?? 0) <= (words.value ?? 0);
  const points = sites.map((each) => ({ ...each, words_do_as_well: each.site === site && over_words ? clearly(over_words) < 1 : meets(each.test) }));
  return { name: "All labels, mean", points, words: words ?? undefined, site };
}

/** The mean of figures that are defined. */
export function meanOf(values: readonly Maybe[]): number | undefined {
  const known = values.filter((value) => value != null);
  return known.length === 0 ? undefined : known.reduce((sum, each) => sum + each, 0) / known.length;
}

/** What cross-validation found of a label, or of all of them; nothing where there was none. */
export function foldsOf({ folds, labels }: ProbeReport, name: string): CrossValidated | undefined {
  if (!folds) return undefined;
  const at = labels.findIndex(({ label }) => label === name);
  return (name === ALL ? folds.all : folds.labels[at]) ?? undefined;
}

/** Where its figure lies, and that of the words beside it. */
export const besideWords = ({ auc, words }: CrossValidated): string => between(auc) + (words ? `, words ${three(words.value)}` : "");

/** What a gain over the words comes to. */
export function gainText(over: Difference | null): string {
  if (!over) return "";
  const by = `${signed(over.difference)} (${differenceText(over)})`;
  return { 1: by, 0: `${by}: the words may do as well`, "-1": `${by}: the words know more` }[clearly(over)];
}

/** How many labels the probes say more of than the words. */
export function beyondWords({ labels }: ProbeReport): string {
  const judged = labels.filter(({ over_words }) => over_words !== null);
  if (judged.length < 2) return "";
  const beyond = judged.filter(isStarred).length;
  return `Probes go beyond the words for ${beyond === 0 ? "none" : count(beyond)} of ${count(judged.length)} labels, corrected for their number.`;
}

/** How deep a cell of this area under the curve is coloured, from 0 to 1: what matters most is told apart best. */
export const depthOf = (auc: Maybe): number => Math.min(Math.max(((auc ?? 0.5) - 0.5) * 2, 0), 1) ** 1.7;

export type Order = "gain" | "auc" | "name";

/** Labels in an order; those without figures come last. */
export function ordered(labels: readonly LabelReport[], by: Order): LabelReport[] {
  const value = (label: LabelReport): number => {
    const auc = label.probe?.test.auc.value ?? -1;
    return by === "gain" && label.over_words ? (label.over_words.difference ?? 0) : auc;
  };
  const rank = (label: LabelReport) => (label.probe ? 0 : 1);
  return [...labels].sort((one, other) => rank(one) - rank(other) || (by === "name" ? 0 : value(other) - value(one)) || one.label.localeCompare(other.label));
}

/** The probability of a score, where probes were calibrated. */
export function probability(score: number, scale: CalibrationScale | null): number | undefined {
  return scale?.scale == null || scale.shift == null ? undefined : 1 / (1 + Math.exp(-(scale.scale * score + scale.shift)));
}

/** Rows of both classes. */
export interface Totals {
  positives: number;
  negatives: number;
}

export function totalsOf({ at_threshold: { confusion } }: ProbeFigures): Totals {
  return { positives: confusion.true_positives + confusion.false_negatives, negatives: confusion.false_positives + confusion.true_negatives };
}

type Points = NonNullable<ProbeFigures["points"]>;

/** What thresholds do. Probes that were saved before that was kept have none. */
export const pointsOf = ({ points }: ProbeFigures): Points => points ?? [];

export type Place = [x: number, y: number];

/** The curve of false and true positives, from 0, 0 to 1, 1. */
export const rocOf = (points: Points, { positives, negatives }: Totals): Place[] => [[0, 0], ...points.map(([, found, wrong]): Place => [wrong / negatives, found / positives])];

/** Recall and precision; where nothing is called positive there is no precision. */
export const precisionsOf = (points: Points, { positives }: Totals): Place[] => points.filter(([, found, wrong]) => found + wrong > 0).map(([, found, wrong]) => [found / positives, found / (found + wrong)]);

/** Rows of all four kinds at the threshold at a place. */
export function confusionAt(points: Points, at: number, { positives, negatives }: Totals): Confusion {
  const [, found = 0, wrong = 0] = points[at] ?? [];
  return { true_positives: found, false_positives: wrong, false_negatives: positives - found, true_negatives: negatives - wrong };
}

/** The place of the threshold that is nearest to a score. */
export function nearest(points: Points, score: Maybe): number {
  const away = (at: number) => Math.abs((points[at]?.[0] ?? 0) - (score ?? 0));
  return points.reduce((best, _, at) => (away(at) < away(best) ? at : best), 0);
}

export function ratesOf({ true_positives: found, false_positives: wrong, false_negatives: missed, true_negatives: left }: Confusion) {
  const share = (part: number, of: number) => (of > 0 ? part / of : undefined);
  return {
    precision: share(found, found + wrong),
    recall: share(found, found + missed),
    f1: share(2 * found, 2 * found + wrong + missed),
    accuracy: share(found + left, found + wrong + missed + left),
  };
}

/** Which states of a text were read, in words. */
export const POSITIONS: Record<StatesPosition, string> = {
  last: "its last token",
  mean: "mean over the text",
  max: "largest values over the text",
  mean_and_max: "mean and largest values over the text",
  tokens: "each token",
  answer: "mean over the answer",
  marked: "mean over marked parts",
};

/** How texts were shown to the model, in words. */
export function shownAs({ isChat, prompt }: { isChat: boolean; prompt: string }): string {
  if (isChat) return "a turn of a chat";
  return prompt === "{text}" ? "the text alone" : prompt || "not known";
}
