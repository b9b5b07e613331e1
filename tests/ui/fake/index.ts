// A made-up app behind the window, for tests and for pictures. Only a build in the mode `fake` has it.
//
// What it says is in `answers`; the code here only has things happen. A test of the commands (`commands/tests/recording.rs`)
// writes the plans, inspections and devices, as the app says them on the computer in `machine`.
//
// The address says what is shown. `?scene=` is `full`, `empty` (the first start), `broken` (commands refuse), `offered`
// (runs were running when the app last ended) or `offline` (the Hub can't be asked). `?points=` gives the run that is running
//  so many steps, and `?rate=` has it do so many a second. `?bench=`
// has a benchmark wait for a run (`waits`) or stay at a case (`stays`) until it is stopped, and `?export=` an export stay where it
// is `written` or `compared`. `#` and a route as JSON opens a
// page.

import { mockIPC, mockWindows } from "@tauri-apps/api/mocks";
import { go, type Route } from "../../../ui/src/routes.svelte";
import type { News } from "../../../ui/src/api";
import { appAnswers, tell } from "./app";
import { benchAnswers } from "./bench";
import { chatAnswers } from "./chat";
import { dataAnswers } from "./data";
import { downloadAnswers } from "./downloads";
import { exportAnswers } from "./export";
import { hubAnswers } from "./hub";
import { pictureAnswers } from "./pictures";
import { planAnswers } from "./plan";
import { probeAnswers } from "./probe";
import { runAnswers } from "./runs";
import { serveAnswers } from "./serve";
import { mayRefuse, type Answers } from "./scene";
import { solveAnswers } from "./solve";

declare global {
  interface Window {
    /** What tests reach into; its name says whether a build has the fake in it. */
    annealFake?: {
      /** Tells the window something, as the app would. */
      news: (news: News) => void;
      /** The commands that were asked, with what they were given, in order. */
      asked: [string, unknown[]][];
      /** How many of them have no answer yet, without those that take minutes. */
      open: number;
    };
  }
}

/** Commands of which nothing is seen but that they were asked. */
const SILENT = [
  "leave", "disableCommands", "reveal", "openLink", "importModel", "forgetModel", "deleteModel", "stopCheck", "exportBenchmark", "savePicture", "exportConversation",
  "deleteCached", "hubLogin", "hubLogout", "writeRunFile", "orderRuns", "renameRun", "extendRun",
] as const;

const answers: Omit<Answers, (typeof SILENT)[number]> = {
  ...appAnswers,
  ...benchAnswers,
  ...dataAnswers,
  ...hubAnswers,
  ...downloadAnswers,
  ...planAnswers,
  ...runAnswers,
  ...chatAnswers,
  ...serveAnswers,
  ...solveAnswers,
  ...pictureAnswers,
  ...exportAnswers,
  ...probeAnswers,
};

/** What takes minutes, so that nobody waits for its answer. */
const LASTING = new Set(["runBenchmark", "exportModel"]);

/** Puts the fake in place of the app, and opens the page that the address names. */
export async function install(): Promise<void> {
  const fake: Window["annealFake"] = { news: tell, asked: [], open: 0 };
  window.annealFake = fake;
  mockWindows("main");
  mockIPC((command, payload) => {
    const name = command.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    const answer = (answers as Record<string, unknown>)[name] as ((...given: unknown[]) => unknown) | undefined;
    if (!answer && !(SILENT as readonly string[]).includes(name)) throw new Error(`the fake does not know \`${command}\``);
    // The bindings write the arguments in the order of the function's.
    const given = Object.values(payload ?? {});
    fake.asked.push([name, given]);
    const counted = LASTING.has(name) ? 0 : 1;
    fake.open += counted;
    return Promise.resolve()
      .then(() => {
        mayRefuse(name as keyof Answers);
        return answer?.(...given);
      })
      .then((told) => told ?? null)
      .finally(() => (fake.open -= counted));
  });
  const wanted = decodeURIComponent(location.hash.slice(1));
  if (wanted.startsWith("{")) go(JSON.parse(wanted) as Route);
}
