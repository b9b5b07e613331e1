// What is said of a run of pictures.

import type { RunView } from "../../api";
import { count, counted } from "../../lib/format";
import { interval, intervalText, metricOf, percent } from "../../lib/share";
import type { Figure } from "../kind";

/** The measures that a chart begins with: shares of pictures or of classes. */
export const shares = [
  { measure: "accuracy", title: "Accuracy" },
  { measure: "top5_accuracy", title: "Top 5" },
  { measure: "macro_recall", title: "Recall" },
];

interface Share {
  value: number;
  of: number;
}

/** What was right of pictures that nothing was learned from: of a part of its own where the data has one, which was looked at once. */
export function accuracyOf({ metrics }: RunView): Share | undefined {
  for (const name of ["test_accuracy", "accuracy_at_end", "accuracy"]) {
    const found = metricOf(metrics, name);
    if (found?.value != null && found.of) return { value: found.value, of: found.of };
  }
  return undefined;
}

/** The value of a measure, if it was taken. */
export const valueOf = ({ metrics }: RunView, name: string): number | undefined => metricOf(metrics, name)?.value ?? undefined;

export function verdict(run: RunView): string[] {
  const right = accuracyOf(run);
  if (!right) return run.bestLoss === null ? ["Finished", "no held-out pictures"] : [];
  const { value, of } = right;
  return [`Right on ${count(Math.round(value * of))} of ${count(of)} new pictures: ${percent(value)} (${intervalText(value, of)})`];
}

/** What can be said by less than the pictures, each with how often that is right. */
export function baselinesOf(run: RunView): { name: string; value: number }[] {
  const [majority, colours] = [valueOf(run, "majority_accuracy"), valueOf(run, "colour_accuracy")];
  return [
    ...(majority === undefined ? [] : [{ name: "Always the most frequent class", value: majority }]),
    ...(colours === undefined ? [] : [{ name: "Colours alone", value: colours }]),
  ];
}

export function meaning(run: RunView): string {
  const right = accuracyOf(run);
  if (!right) return "";
  const [majority, colours] = [valueOf(run, "majority_accuracy"), valueOf(run, "colour_accuracy")];
  const always = majority === undefined ? "" : `Always saying the most frequent class would be right ${percent(majority)} of the time`;
  const byColour = colours === undefined ? "" : `${always ? "; c" : "C"}olours alone ${always ? "" : "would be right "}${percent(colours)}${always ? "" : " of the time"}`;
  const baselines = always || byColour ? `${always}${byColour}.` : "";
  // No better than colours: what was learned may be the background.
  const isBackground = colours !== undefined && colours >= interval(right.value, right.of)[0];
  const warning = isBackground ? " That is about as often: look at the heat maps, it may have learned the background." : "";
  return `${baselines}${warning}`.trim() || "In brackets: the range of the true share, with 95 % confidence.";
}

/** How far it is while it learns. */
export function progress(run: RunView): string {
  const right = accuracyOf(run);
  return right ? `Right on ${percent(right.value)} of ${count(right.of)} held-out pictures so far.` : "";
}

/** The figures of a run that take the place of its losses. */
export function figures(run: RunView): Figure[] {
  const right = accuracyOf(run);
  const share = (name: string, text: string): Figure[] => {
    const value = valueOf(run, name);
    return value === undefined ? [] : [{ value: percent(value), text }];
  };
  const accuracy = { value: right ? percent(right.value) : "–", rest: right ? intervalText(right.value, right.of) : "", text: "new pictures right" };
  const more = [...share("top5_accuracy", "among the first five"), ...share("macro_recall", "mean recall"), ...share("calibration_error", "calibration error")];
  return [accuracy, ...more.slice(0, 2)];
}

/** Whether more pictures would help, by what fewer of them came to. */
export function moreOf(run: RunView): { points: { name: string; value: number }[]; twice: number; text: string } | undefined {
  const [quarter, half] = [valueOf(run, "accuracy_quarter"), valueOf(run, "accuracy_half")];
  const all = valueOf(run, "accuracy_folds") ?? valueOf(run, "accuracy");
  if (quarter === undefined || half === undefined || all === undefined) return undefined;
  // Mistakes shrink by about the same factor with each doubling.
  const factor = half < 1 ? Math.min(Math.max((1 - all) / (1 - half), 0), 1) : 1;
  const twice = 1 - (1 - all) * factor;
  const gain = Math.round(100 * (twice - all));
  const text = gain >= 1 ? `Probably: twice as many would add about ${counted(gain, "point")}.` : "Hardly: twice as many would add less than a point.";
  const points = [
    { name: "a quarter", value: quarter },
    { name: "half", value: half },
    { name: "all", value: all },
  ];
  return { points, twice, text };
}
