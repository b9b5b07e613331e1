// A run before it starts: what the app said of forms that were filled in.

import type { FieldProblemView, Filled, PlanView, ProfileView } from "../../../ui/src/api";
import plans from "./answers/plans.json";
import profile from "./answers/profile.json";
import { beginRun, runAnswers } from "./runs";
import { asks, recorded, refuse, scene, type Some, wait } from "./scene";

/** A problem with no field of the form. */
const LOST: FieldProblemView = { field: "", text: "could not ask the device: the engine ended without a word", hint: "look into the log" };

/** What was said of the first form that has what this one has, and lacks what it lacks. */
export function planOf(filled: Filled): PlanView {
  const asked = scene === "broken" ? { "schedule.warmup_steps": "500" } : filled;
  const plan = recorded<PlanView>(plans.find((each) => asks(asked, each.asked))!.answer);
  return scene === "broken" ? { ...plan, problems: [...plan.problems, LOST] } : plan;
}

/** Refuses a request that has something wrong, as starting it does. */
function check(filled: Filled): PlanView {
  const plan = planOf(filled);
  const [wrong] = plan.problems;
  return wrong ? refuse(wrong.text, wrong.hint, wrong.field || null) : plan;
}

let isStopped = false;

/** Takes a few steps, unless they are stopped. */
async function trial() {
  isStopped = false;
  for (let turn = 0; turn < 15 && !isStopped; turn += 1) await wait(100);
  if (isStopped) refuse("the trial was stopped before it knew anything");
}

export const planAnswers = {
  planRun: async (filled) => {
    await wait(40);
    return planOf(filled);
  },

  tryRun: async (filled) => {
    const { steps } = check(filled);
    await trial();
    return { steps: 5, whole: true, millis: 512, seconds: 0.512 * steps, peakBytes: 9.61e9 };
  },

  profileRun: async (filled) => {
    check(filled);
    await trial();
    return recorded<ProfileView>(profile);
  },

  stopTrial: () => void (isStopped = true),

  startRun: (filled, force) => {
    const { fit, steps } = check(filled);
    if (fit && !fit.fits && !force) refuse(fit.refusal);
    return beginRun(filled, steps);
  },

  readRunFile: () => runAnswers.runSettings("2026-11-20-support-tone-3e90"),
} satisfies Some;
