// Probes: what a study found, by label and site, with thresholds that are tried, and what it was found of.

import { fireEvent, render, screen, waitFor, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { beforeAll, describe, expect, test, vi } from "vitest";

import { api, type ProbeReportView } from "../../ui/src/api";
import { confusionAt, headlineOf, nearest, ordered, pointsOf, precisionsOf, ratesOf, rocOf, totalsOf } from "../../ui/src/features/probe/figures";
import CompareTexts from "../../ui/src/features/probe/CompareTexts.svelte";
import { takenFor } from "../../ui/src/lib/confusion";
import FolderReport from "../../ui/src/features/probe/FolderReport.svelte";
import Probes from "../../ui/src/features/probe/Probes.svelte";
import Report from "../../ui/src/features/probe/Report.svelte";
import { route } from "../../ui/src/routes.svelte";
import { install } from "./fake";
import { refused } from "./made";

let messages: ProbeReportView;
let bare: ProbeReportView;

beforeAll(async () => {
  await install();
  [messages, bare] = await Promise.all(["messages", "bare"].map((name) => api.probeReport(`/${name}-probes`, null))) as [ProbeReportView, ProbeReportView];
});

const labelOf = (view: ProbeReportView, name: string) => view.report.labels.find(({ label }) => label === name)!;
const map = () => screen.getByRole("grid", { name: /^AUC on test rows/ });
const chosen = () => within(map()).getByRole("gridcell", { selected: true });
const title = (of: RegExp) => screen.getByRole("heading", { name: of });

describe("points of a curve", () => {
  const points: [number, number, number][] = [
    [2, 1, 0],
    [0.5, 3, 1],
    [-1, 4, 6],
  ];
  const totals = { positives: 4, negatives: 6 };

  test("give both curves, and the rows of all four kinds at each threshold", () => {
    expect(rocOf(points, totals)).toEqual([[0, 0], [0, 0.25], [1 / 6, 0.75], [1, 1]]);
    expect(precisionsOf([[3, 0, 0], ...points], totals)).toEqual([[0.25, 1], [0.75, 0.75], [1, 0.4]]);
    const at = confusionAt(points, 1, totals);
    expect(at).toEqual({ true_positives: 3, false_positives: 1, false_negatives: 1, true_negatives: 5 });
    expect(ratesOf(at)).toEqual({ precision: 0.75, recall: 0.75, f1: 0.75, accuracy: 0.8 });
    expect(nearest(points, 0.4)).toBe(1);
    // Nothing called positive has no precision.
    expect(ratesOf({ true_positives: 0, false_positives: 0, false_negatives: 4, true_negatives: 6 }).precision).toBeUndefined();
  });

  test("agree with what the study says at its own threshold, for every label and for the words", () => {
    const judged = messages.report.labels.flatMap(({ probe, words }) => [probe?.test, words].filter((it) => it != null));
    expect(judged).toHaveLength(24);
    for (const test of judged) {
      const points = pointsOf(test);
      expect(points.length).toBeLessThanOrEqual(200);
      const at = nearest(points, test.at_threshold.threshold);
      expect(confusionAt(points, at, totalsOf(test))).toEqual(test.at_threshold.confusion);
    }
  });
});

describe("a report", () => {
  test("begins with its sentence, and has the words beside every number", () => {
    render(Report, { view: messages });
    const said = screen.getByRole("region", { name: "What was found" });
    expect(said.textContent).toContain(headlineOf(messages.report).title);
    expect(said.textContent).toContain("words alone");
    expect(said.textContent).toMatch(/Probes go beyond the words for (\d+|none) of 12 labels/);
    expect(screen.getByText("Words alone")).toBeTruthy();
    expect(within(map()).getByRole("columnheader", { name: "words" })).toBeTruthy();
  });

  test("is walked through by the arrow keys, label by label and site by site", async () => {
    render(Report, { view: messages });
    const [first, second] = ordered(messages.report.labels, "gain");
    expect(title(new RegExp(`^${first!.label}, block`))).toBeTruthy();
    chosen().focus();
    await userEvent.keyboard("{ArrowDown}");
    expect(title(new RegExp(`^${second!.label}, block`))).toBeTruthy();
    await userEvent.keyboard("{Home}");
    expect(chosen().getAttribute("aria-label")).toContain(`${second!.label} at embed: AUC `);
    expect(document.activeElement).toBe(chosen());
    await userEvent.keyboard("{End}{ArrowRight}");
    expect(chosen().getAttribute("aria-label")).toContain("at block.23: AUC ");
    expect(within(map()).getAllByRole("gridcell").filter((cell) => cell.tabIndex === 0)).toHaveLength(1);
  });

  test("has the mean of all labels above them, with its own curve and figures", async () => {
    render(Report, { view: messages });
    chosen().focus();
    await userEvent.keyboard("{ArrowUp}");
    const { site, words } = messages.report;
    expect(title(new RegExp(`^All labels, ${site}$`)).closest("section")!.textContent).toContain(words!.value!.toFixed(3));
    expect(screen.getByRole("img", { name: new RegExp(`^AUC of All labels, mean by site: .* at the chosen ${site}, words`) })).toBeTruthy();
    expect(screen.queryByRole("slider", { name: "Threshold" })).toBeNull();
  });

  test("says in words where the words do as well, and which site was chosen", () => {
    render(Report, { view: messages });
    const { curve, label, probe } = messages.report.labels[0]!;
    const hatched = curve.findIndex(({ words_do_as_well: asWell }) => asWell);
    const at = messages.report.sites[hatched]!.site;
    expect(within(map()).getByRole("gridcell", { name: new RegExp(`^${label} at ${at}: .*the words may do as well`) })).toBeTruthy();
    expect(within(map()).getByRole("gridcell", { name: new RegExp(`^${label} at ${probe!.site}: .*chosen on validation rows`) })).toBeTruthy();
  });

  test("shows what another threshold does, and goes back to the chosen one", async () => {
    render(Report, { view: messages });
    const { label, probe } = ordered(messages.report.labels, "gain")[0]!;
    const { confusion } = probe!.test.at_threshold;
    const table = screen.getByRole("table", { name: "Test rows at this threshold" });
    const numbers = () => within(table).getAllByRole("cell").map((cell) => parseInt(cell.textContent)).filter((number) => !Number.isNaN(number));
    expect(numbers()).toEqual([confusion.true_positives, confusion.false_positives, confusion.false_negatives, confusion.true_negatives]);
    expect(within(table).getByText(`is ${label}`)).toBeTruthy();
    // At the lowest everything is called so.
    await fireEvent.input(screen.getByRole("slider", { name: "Threshold" }), { target: { value: "0" } });
    expect(numbers()).toEqual([confusion.true_positives + confusion.false_negatives, confusion.false_positives + confusion.true_negatives, 0, 0]);
    await userEvent.click(screen.getByRole("button", { name: /^Back to/ }));
    expect(numbers()[0]).toBe(confusion.true_positives);
  });

  test("shows the rows that are most wrong with their texts, and on which side they are", async () => {
    render(Report, { view: messages });
    const { label, extremes } = ordered(messages.report.labels, "gain")[0]!;
    const wrong = extremes!.most_wrong;
    await userEvent.click(screen.getByRole("radio", { name: "Most wrong" }));
    const card = title(new RegExp(`^Examples of ${label}`)).closest("section")!;
    const rows = within(card).getAllByRole("listitem");
    expect(rows).toHaveLength(Math.min(wrong.length, 8));
    for (const row of rows) expect(row.textContent).toMatch(/missed|false alarm/);
    const text = messages.texts.find(({ row }) => row === wrong[0]!.row)!.text;
    expect(rows[0]!.textContent).toContain(text);
  });

  test("lists who is taken for whom", () => {
    render(Report, { view: messages });
    const names = messages.report.labels.map(({ label }) => label);
    const [most] = takenFor(messages.report.classes!.probe.confusion, 1);
    const card = title(/^One answer among 12/).closest("section")!;
    expect(within(card).getAllByRole("listitem")[0]!.textContent).toContain(`${names[most!.of]} called ${names[most!.as]}`);
    expect(card.textContent).toContain("words alone");
  });

  test("has no figure for a label with too few rows, and says so", async () => {
    render(Report, { view: bare });
    await userEvent.click(within(map()).getByText("Legal notice"));
    expect(within(map()).getByText(/^too few: /)).toBeTruthy();
    expect(screen.getByText("Too few")).toBeTruthy();
    const card = title(/^Legal notice$/).closest("section")!;
    expect(card.textContent).not.toMatch(/0\.5|NaN|null/);
    expect(labelOf(bare, "Legal notice").probe).toBeNull();
  });

  test("says what it lacks where the states came without texts", () => {
    render(Report, { view: bare });
    expect(screen.getByText(/nobody can say whether the words do as well/)).toBeTruthy();
    expect(screen.getByText(/^Only the numbers of rows:/)).toBeTruthy();
    expect(screen.getAllByText(/^row \d+ of the states$/).length).toBeGreaterThan(0);
    expect(within(map()).queryByRole("columnheader", { name: "words" })).toBeNull();
  });

  test("of probes that were saved without their curves is shown without them", () => {
    const labels = messages.report.labels.map((label) => ({ ...label, extremes: { strongest: [], weakest: [], most_wrong: [] }, probe: label.probe && { ...label.probe, test: { ...label.probe.test, points: [] } } }));
    render(Report, { view: { ...messages, report: { ...messages.report, labels } } });
    expect(screen.queryByRole("slider", { name: "Threshold" })).toBeNull();
    expect(screen.getAllByText(/Learn them anew/)).toHaveLength(2);
  });
});

describe("a folder of probes", () => {
  test("is read with the texts of its states, and what is wrong with it is said", async () => {
    const asked = vi.spyOn(api, "probeReport");
    render(FolderReport, { folder: "/two-probes", states: "/two" });
    expect(await screen.findByRole("region", { name: "What was found" })).toBeTruthy();
    expect(asked).toHaveBeenCalledWith("/two-probes", "/two");
    asked.mockRejectedValueOnce(refused("failed", "is no probes.json"));
    render(FolderReport, { folder: "/other" });
    expect((await screen.findByRole("alert")).textContent).toContain("is no probes.json");
    asked.mockRestore();
  });

  test("of another program says what its probes are, and that nobody knows how often they are right", async () => {
    render(FolderReport, { folder: "/imported-probes" });
    expect(await screen.findByText(/Another program learned these probes/)).toBeTruthy();
    const rows = within(screen.getByRole("table", { name: /^The probes, with/ })).getAllByRole("row").slice(1).map((row) => row.textContent);
    expect(rows).toEqual(["analyzingblock.9probe_analyzing.pth", "questioningblock.9probe_questioning.pth", "reframingblock.9probe_reframing.pth"]);
    expect(screen.queryByRole("region", { name: "What was found" })).toBeNull();
    expect(screen.getByRole("button", { name: "Compare" })).toBeTruthy();
  });

  test("is opened from the page of probes", async () => {
    const picked = vi.spyOn(api, "pick").mockResolvedValue("/messages-probes");
    render(Probes, {});
    await userEvent.click(screen.getByRole("button", { name: "Open probes…" }));
    await waitFor(() => expect(route.now).toEqual({ page: "probes", folder: "/messages-probes" }));
    picked.mockRestore();
  });
});

describe("two texts", () => {
  test("are compared by what differs most, in either direction", () => {
    const pairs = [
      { label: "Praise", one: 0.2, other: 0.4, threshold: 1 },
      { label: "Urgency", one: 2, other: -1.5, threshold: 0.5 },
    ];
    render(CompareTexts, { pairs, names: ["Before", "After"] });
    const rows = screen.getAllByRole("row").slice(1).map((row) => row.textContent);
    expect(rows[0]).toContain("Urgency2.00, above its threshold−1.50−3.500");
    expect(rows[1]).toContain("Praise0.200.40+0.200");
  });
});
