// Probes: what a model’s inner states say about a text.

import type { RunView } from "../../api";
import type { Tile } from "../kind";
import ProbeSign from "./ProbeSign.svelte";

export const task = "probe";
export const unit = "texts";
export const hasGradients = false;
export const needsBase = () => true;
export const shown = { title: "Sites", none: "Each place in the model is learned by itself once the texts are read." };

export const tiles: Tile[] = [
  {
    name: "probe",
    title: "Probe",
    text: "Read what a model’s inner states say of a text",
    Sign: ProbeSign,
    filled: {},
    fits: () => true,
  },
];

const metricOf = ({ metrics }: RunView, name: string) => metrics.find((each) => each.name === name)?.value ?? undefined;

/** Always beside what the words say by themselves. */
export function verdict(run: RunView): string[] {
  const [probe, words] = [metricOf(run, "auc"), metricOf(run, "words_auc")];
  if (probe === undefined) return [];
  return [`AUC ${probe.toFixed(3)}${words === undefined ? "" : `; the words alone ${words.toFixed(3)}`}`];
}

export function meaning(run: RunView): string {
  return metricOf(run, "auc") === undefined ? "" : "How well texts with a label are ranked before those without: 1 is perfect, 0.5 is chance. Measured once, on texts that nothing was chosen by.";
}

/** How far it is while it learns. */
export function progress(run: RunView): string {
  const best = metricOf(run, "validation_auc");
  return best === undefined ? "Reading texts." : `AUC ${best.toFixed(3)} at the last site, on validation rows.`;
}

/** The figures of a run that take the place of its losses. */
export function figures(run: RunView) {
  const figure = (name: string, text: string) => ({ value: metricOf(run, name)?.toFixed(3) ?? "–", text });
  return [figure("auc", "AUC"), figure("words_auc", "AUC of the words alone"), figure("validation_auc", "AUC on validation rows")];
}

export { form } from "./form";
export { uses } from "./uses";
