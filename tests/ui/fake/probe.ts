// Probes: reports of real studies of made-up messages, and one of so many labels that nobody would record it.

import type { LabelReport, ProbeFolderView } from "../../../ui/src/api";
import recordedReports from "./answers/probe-reports.json";
import { recorded, refuse, type Some, wait } from "./scene";

type Study = Extract<ProbeFolderView, { kind: "study" }>;

const reports = () => recorded<Record<"messages" | "two" | "bare", Study>>(recordedReports);

const LABELS = 45;

/** The report of twelve labels, each of them several times under other names. One has too few rows. */
function many(): Study {
  const view = reports().messages;
  const { labels, classes } = view.report;
  const all = Array.from({ length: LABELS }, (_, at): LabelReport => {
    const like = labels[at % labels.length]!;
    return { ...like, label: at < labels.length ? like.label : `${like.label}, ${["in writing", "by telephone", "of a customer for many years"][Math.floor(at / labels.length) - 1]}` };
  });
  const [few] = all.splice(20, 1, { ...all[20]!, positives: [1, 0, 0], undefined: "too few to say anything: 1 row with it to learn from, 0 to choose on, 0 to report on, and the rest without", probe: null, curve: [], words: null, over_words: null, corrected: null, length: null, shuffled: [], control: null, selectivity: null, extremes: { strongest: [], weakest: [], most_wrong: [] } });
  const cell = (of: number, as: number) => {
    const rows = classes?.probe.confusion[of % labels.length]?.[as % labels.length] ?? 0;
    return of === as ? rows : (of + as) % 3 === 0 ? Math.round(rows / 3) : 0;
  };
  const confusion = all.map((_, of) => all.map((_, as) => cell(of, as)));
  const warning = `“${few!.label}” has no figures: too few to say anything`;
  return { ...view, report: { ...view.report, warnings: [warning, ...view.report.warnings], labels: all, classes: classes && { ...classes, probe: { ...classes.probe, confusion } } } };
}

/** Probes that came from files of another program. */
const imported: ProbeFolderView = {
  kind: "imported",
  model: "google/gemma-3-4b-it",
  adapter: null,
  prompt: "{text}\n\nThe cognitive action being demonstrated here is",
  isChat: false,
  position: "last",
  hidden: [],
  probes: ["analyzing", "questioning", "reframing"].map((label) => ({ label, site: "block.9", file: `probe_${label}.pth` })),
};

export const probeAnswers = {
  probeReport: async (folder) => {
    await wait(40);
    if (/imported/.test(folder)) return imported;
    if (/many/.test(folder)) return many();
    const name = (["messages", "two", "bare"] as const).find((each) => folder.includes(each));
    return name ? reports()[name] : refuse(`could not read what the probes are: No such file or directory (os error 2): \`${folder}/probes.json\``);
  },

  probeFolders: () => ({ probes: "/Users/mira/messages-probes", states: "/Users/mira/messages" }),

  compareTexts: async () => {
    await wait(40);
    return reports().messages.report.labels.map(({ label, probe }, at) => ({ label, one: Math.sin(3 * at) * 4, other: Math.cos(5 * at) * 4, threshold: probe?.threshold ?? 0 }));
  },

  labelledData: async (files) => {
    await wait(40);
    if (!files.some((file) => file.endsWith(".jsonl"))) refuse("no column can be the text; there are: `id`, `body`");
    const { labels } = reports().messages.report;
    const counts = labels.map(({ label, positives }) => ({ name: label, rows: positives.reduce((sum, each) => sum + each, 0) }));
    return { readAs: ["The text is `text`, the label is `label`."], rows: 1200, unlabelled: 0, problems: 0, labels: counts };
  },
} satisfies Some;
