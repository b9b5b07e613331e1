// How near an export is to what was trained.

import type { ComparedView, ExportView, OfferView } from "../../api";
import { count, loss } from "../../lib/format";
import { percent } from "../../lib/share";
import { isRounded } from "./formats";

export interface Fidelity {
  text: string;
  tone: "ok" | "warn" | "plain";
}

/** Before it is written by what is known of the format, and then by what was measured. */
export function fidelityOf(offer: OfferView, written?: ExportView): Fidelity {
  const gap = written?.figures ? Math.abs(written.figures.lossAfter - written.figures.lossBefore) : undefined;
  if (written?.figures && gap !== undefined && gap >= 0.0015) return { text: lossText(written.figures), tone: "warn" };
  if (offer.losses.length > 0) return { text: "Something is lost", tone: "warn" };
  if (gap !== undefined) return { text: gap < 0.0005 ? "Faithful" : "Faithful to 0.001", tone: "ok" };
  return isRounded(offer) ? { text: "Rounded", tone: "plain" } : { text: "Faithful", tone: "ok" };
}

const lossText = ({ lossBefore, lossAfter }: ComparedView): string => `Loss ${loss(lossBefore)} → ${loss(lossAfter)}`;

/** What was measured, figure by figure. */
export function figuresOf({ what, sameNextToken, divergence, lossBefore, lossAfter, tokenizedAlike }: ComparedView): { value: string; text: string }[] {
  return [
    { value: percent(sameNextToken), text: "same next token" },
    { value: `${loss(lossBefore)} → ${loss(lossAfter)}`, text: what.startsWith("held-out") ? "held-out loss" : "loss" },
    { value: divergence < 0.0001 ? "< 0.0001" : divergence.toFixed(divergence < 0.01 ? 4 : 3), text: "divergence, nats" },
    ...(tokenizedAlike === null ? [] : [{ value: `${count(tokenizedAlike)} of ${count(tokenizedAlike)}`, text: "texts tokenized alike" }]),
  ];
}
