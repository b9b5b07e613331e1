// Scores of tokens as they are shown: how strong each is, and how those of an answer went.

import type { LiveProbeView, ScoredToken } from "../../api";

/** How much of a moving average is the newest token. */
const NEW = 0.3;

/** What probes said of an answer: its tokens as far as they have scores, and the probes in the order of these. */
export interface Scored {
  tokens: ScoredToken[];
  probes: LiveProbeView[];
}

/** What tells probes apart. */
export const keyOf = ({ folder, label, site }: LiveProbeView) => `${folder} ${site} ${label}`;

/** How the scores of a probe went over the tokens of an answer. */
export interface Course {
  /** The score of each token, where it has one. */
  scores: (number | undefined)[];
  mean: number;
  /** The moving average at the end. */
  average: number;
  peak: number;
  /** Which token has the peak. */
  at: number;
  /** Whether the peak reaches the threshold. */
  isActive: boolean;
}

/** A score with what a probe was calibrated by, or as it is: in these units probes can be compared, and the threshold is a number. */
function units({ scale }: LiveProbeView, score: number): number {
  return scale && scale.scale > 0 ? scale.scale * score + scale.shift : score;
}

/** How far a score lies above what is called active, in units of which one multiplies the odds by 2.7. */
export function above(probe: LiveProbeView, score: number): number {
  return units(probe, score) - units(probe, probe.threshold);
}

/** From where on each shade begins: the first, faintest one just below the threshold. */
const SHADES = [-0.5, 0, 1, 2];

/** How dark a token is, from 0, which is not at all, to 4. */
export function shadeOf(probe: LiveProbeView, score: number | undefined): number {
  if (score === undefined) return 0;
  const height = above(probe, score);
  return SHADES.filter((from) => height >= from).length;
}

/** The probability that a score means, where the probe was calibrated. */
export function probabilityOf(probe: LiveProbeView, score: number): number | undefined {
  return probe.scale ? 1 / (1 + Math.exp(-(probe.scale.scale * score + probe.scale.shift))) : undefined;
}

/** `+1.24` */
export function scoreText(score: number): string {
  return `${score < 0 ? "−" : "+"}${Math.abs(score).toFixed(2)}`;
}

/** What a probe says of a token, in words. */
export function wordsOf(probe: LiveProbeView, score: number | undefined): string {
  if (score === undefined) return "no score";
  const probability = probabilityOf(probe, score);
  const more = probability === undefined ? "" : `, probability ${probability.toFixed(2)}`;
  return `score ${scoreText(score)}${more}${score >= probe.threshold ? ", active" : ""}`;
}

/** Nothing where no token has a score of the probe. */
export function courseOf(tokens: ScoredToken[], index: number, probe: LiveProbeView): Course | undefined {
  const scores = tokens.map(({ scores }) => scores[index] ?? undefined);
  const known = scores.filter((score) => score !== undefined);
  const [first] = known;
  if (first === undefined) return undefined;
  const peak = known.reduce((a, b) => Math.max(a, b));
  return {
    scores,
    mean: known.reduce((sum, score) => sum + score, 0) / known.length,
    average: known.reduce((before, score) => before + NEW * (score - before), first),
    peak,
    at: scores.indexOf(peak),
    isActive: peak >= probe.threshold,
  };
}

/** All probes that scored something, those highest above their threshold first. */
export function coursesOf(tokens: ScoredToken[], probes: LiveProbeView[]): { probe: LiveProbeView; index: number; course: Course }[] {
  const all = probes.flatMap((probe, index) => {
    const course = courseOf(tokens, index, probe);
    return course ? [{ probe, index, course }] : [];
  });
  return all.sort((a, b) => above(b.probe, b.course.mean) - above(a.probe, a.course.mean));
}

/** The points of a curve of scores in a box, from left to right; the axis has the threshold in it. */
export function curveOf(course: Course, threshold: number, width: number, height: number): { points: string; threshold: number } {
  const known = course.scores.flatMap((score, at) => (score === undefined ? [] : [[at, score] as const]));
  const values = [threshold, ...known.map(([, score]) => score)];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const y = (score: number) => (high > low ? height - 1 - ((score - low) / (high - low)) * (height - 2) : height / 2);
  const x = (at: number) => (course.scores.length > 1 ? (at / (course.scores.length - 1)) * width : width / 2);
  return { points: known.map(([at, score]) => `${x(at).toFixed(1)},${y(score).toFixed(1)}`).join(" "), threshold: y(threshold) };
}
