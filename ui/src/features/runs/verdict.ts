// What there is to know of a run first: one sentence, and what it means.

import type { RunView } from "../../api";
import { count, duration, loss } from "../../lib/format";
import { capital, quoted, whole, withoutPath } from "../../lib/words";
import { heldOutOf, lossOf } from "./figures";
import { kindOfRun } from "./series";
import { ordinal, type Standing } from "./standing";

export interface Verdict {
  title: string;
  detail: string;
  /** Whether somebody has to do something about it. */
  bad?: boolean;
}

/** What is said of a run as it stands. `going` is the name of the run that another one waits for. */
export function verdictOf(run: RunView, stands: Standing, going?: string): Verdict {
  const place = `step ${count(run.step)} of ${count(run.steps)}`;
  const again = run.saved ? "Resume continues from the last checkpoint, with identical results." : "Nothing was saved yet, so Resume begins at the first step.";
  switch (stands) {
    case "finished":
      return finished(run);
    case "running":
      return running(run);
    case "paused":
      return run.problem === null
        ? { title: `Paused at ${place}`, detail: "Saved, and kept in memory." }
        : { title: `Paused at ${place}: ${quoted(run.problem)}`, detail: "Saved. The run resumes by itself." };
    case "stopped":
      return { title: `Stopped at ${place}`, detail: run.saved ? `Saved. ${again}` : again };
    case "interrupted":
      return { title: `Interrupted at ${place}`, detail: `The app or the computer went down. ${again}` };
    case "failed":
      return { title: `Failed at ${place}`, detail: [withoutPath(run.problem ?? "").text, run.hint].map((text) => whole(text ?? "")).join(" ").trim() + ` ${failed(run, again)}`, bad: true };
    case "waiting":
      return { title: run.place === null || run.place === 1 ? "Next in line" : `${capital(ordinal(run.place))} in line`, detail: going === undefined ? "Starts by itself." : `Waiting for “${going}”.` };
    case "new":
      return { title: "Not started", detail: "Start begins at the first step." };
  }
}

/** What came of a run so far, in few words. */
export function resultOf(run: RunView): string {
  if (run.status === "finished") return finished(run).title;
  const said = kindOfRun(run).progress?.(run);
  if (said) return said.replace(/\.$/, "");
  if (run.bestLoss === null && run.smoothedLoss === null) return "–";
  const { text, value } = run.bestLoss === null ? lossOf(run) : heldOutOf(run);
  return `${capital(text)} ${value}`;
}

function finished(run: RunView): Verdict {
  const { verdict, meaning } = kindOfRun(run);
  const [title = "Finished", ...more] = verdict(run);
  return { title, detail: [...more.map(whole), meaning?.(run) ?? ""].join(" ").trim() };
}

function running(run: RunView): Verdict {
  const { step, steps, secondsLeft, busy, bestLoss, firstHeldOutLoss, smoothedLoss, firstLoss } = run;
  const slow = busy ? " This computer is busy, so steps take longer than usual." : "";
  const title = step === 0 ? "Waiting for the first step" : secondsLeft === null ? "Training" : `About ${duration(secondsLeft)} left`;
  if (step === 0) return { title, detail: "The first step takes longest." };
  if (secondsLeft === null) return { title, detail: `The time left is known after 20 steps.${slow}` };
  const isHeldOut = bestLoss !== null && firstHeldOutLoss !== null && bestLoss < firstHeldOutLoss;
  const learned = isHeldOut ? `Held-out loss ${loss(firstHeldOutLoss)} → ${loss(bestLoss)}` : `Smoothed loss ${loss(firstLoss)} → ${loss(smoothedLoss)}`;
  const said = kindOfRun(run).progress?.(run) || `${learned} so far.`;
  return { title, detail: `${Math.floor((100 * step) / Math.max(steps, 1))} % done. ${said}${slow}` };
}

function failed(run: RunView, again: string): string {
  return run.forceHelps ? "Resume looks again. Resume anyway takes everything as it is now; the losses are then no longer those the run would have had." : again;
}
