// Pictures: what is counted of their classes, looked at in a data set, learned, and said of new ones.

import { fireEvent, render, screen, waitFor, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { beforeAll, describe, expect, test } from "vitest";

import { api, type DataSetView, type FindingView, type RunView } from "../../ui/src/api";
import { base64Of, bytesOf, colourOf, glowOf } from "../../ui/src/components/pixels";
import { aboutOf, titleOf } from "../../ui/src/features/picture/findings";
import { methodOf } from "../../ui/src/features/picture/form";
import PictureSet from "../../ui/src/features/picture/PictureSet.svelte";
import { figures, meaning, moreOf, progress, verdict } from "../../ui/src/features/picture/words";
import { placesFor } from "../../ui/src/features/playground/places";
import Predict from "../../ui/src/features/predict/Predict.svelte";
import { tallied, type Asked } from "../../ui/src/features/predict/predicting.svelte";
import Actions from "../../ui/src/features/runs/Actions.svelte";
import Run from "../../ui/src/features/runs/Run.svelte";
import { draft } from "../../ui/src/features/train/draft.svelte";
import Train from "../../ui/src/features/train/Train.svelte";
import { classFigures, mostTaken, takenFor, totals } from "../../ui/src/lib/confusion";
import { interval, percent } from "../../ui/src/lib/share";
import { route } from "../../ui/src/routes.svelte";
import { app } from "../../ui/src/status.svelte";
import { install } from "./fake";

const FLOWERS = "2026-11-15-garden-flowers-7c1d";

beforeAll(install);

describe("counts of what was said of classes", () => {
  // Three cats, of which one was called a dog; two dogs; no bird, and nothing called one.
  const counts = [
    [2, 1, 0],
    [0, 2, 0],
    [0, 0, 0],
  ];
  const [cat, dog, bird] = classFigures(["cat", "dog", "bird"], counts);

  test("give each class its recall and precision, and none to one that was never there", () => {
    expect(cat).toEqual({ name: "cat", is: 3, said: 2, right: 2, recall: 2 / 3, precision: 1 });
    expect(dog).toEqual({ name: "dog", is: 2, said: 3, right: 2, recall: 1, precision: 2 / 3 });
    expect(bird).toMatchObject({ is: 0, recall: undefined, precision: undefined });
    expect([totals(counts), mostTaken(counts)]).toEqual([{ right: 4, of: 5 }, 1]);
  });

  test("name the classes that are taken for another, with their share", () => {
    expect(takenFor(counts, 5)).toEqual([{ of: 0, as: 1, rows: 1, share: 1 / 3 }]);
    expect(takenFor([[4, 3, 1], [5, 0, 0], [0, 0, 9]], 2).map(({ of, as, rows }) => [of, as, rows])).toEqual([[1, 0, 5], [0, 1, 3]]);
  });

  test("say where a share really may be, as published tables have Wilson’s interval", () => {
    // Brown, Cai and DasGupta, 2001: none of ten, and all of them.
    expect(interval(0, 10).map((end) => end.toFixed(3))).toEqual(["0.000", "0.278"]);
    expect(percent(0.55)).toBe("55 %");
    expect(interval(1, 10).map((end) => end.toFixed(3))).toEqual(["0.722", "1.000"]);
  });
});

describe("pixels", () => {
  test("come from base64 and go back, however many they are", () => {
    const bytes = Uint8Array.from({ length: 100_000 }, (_, at) => at % 251);
    expect(bytesOf(base64Of(bytes))).toEqual(bytes);
    expect(bytesOf("no base64!").length).toBe(0);
    expect(colourOf(" #d8261c ")).toEqual([216, 38, 28]);
  });

  test("glow where something speaks for a class, and are clear elsewhere", () => {
    const map = { rows: 2, columns: 2, strengths: base64Of(new Uint8Array([255, 0, 0, 0])) };
    const stops = [colourOf("#000000"), colourOf("#ffffff")];
    const glow = glowOf(map, stops)!;
    expect([glow.width, glow.height]).toEqual([56, 56]);
    const alpha = (x: number, y: number) => glow.rgba[4 * (y * 56 + x) + 3]!;
    expect(alpha(0, 0)).toBeGreaterThan(190);
    expect(alpha(55, 55)).toBeLessThan(10);
    // Between two places it falls without a dent.
    const row = Array.from({ length: 56 }, (_, x) => alpha(x, 0));
    expect(row.every((value, x) => x === 0 || value <= row[x - 1]!)).toBe(true);
    expect(glowOf({ ...map, rows: 3 }, stops)).toBeUndefined();
  });
});

describe("a run of pictures in words", () => {
  const metric = (name: string, value: number, of: number | null = null) => ({ name, label: name, value, higherIsBetter: true, of });
  const run = (...metrics: RunView["metrics"]) => ({ metrics, bestLoss: 0.3 }) as RunView;

  test("says how many new pictures are right, with the range of the true share, and what less comes to", () => {
    const view = run(metric("accuracy", 0.931, 1000), metric("majority_accuracy", 0.1), metric("colour_accuracy", 0.31));
    expect(verdict(view)).toEqual(["Right on 931 of 1,000 new pictures: 93.1 % (91.4–94.5)"]);
    expect(meaning(view)).toBe("Always saying the most frequent class would be right 10 % of the time; colours alone 31 %.");
    expect(progress(view)).toBe("Right on 93.1 % of 1,000 held-out pictures so far.");
    // A part of its own, which was looked at once, says more than what was measured again and again.
    expect(verdict(run(metric("accuracy", 0.9, 50), metric("test_accuracy", 0.8, 10)))[0]).toMatch(/^Right on 8 of 10/);
    expect(verdict({ ...run(), bestLoss: null })).toEqual(["Finished", "no held-out pictures"]);
  });

  test("warns where colours alone are as good", () => {
    expect(meaning(run(metric("accuracy", 0.91, 100), metric("colour_accuracy", 0.9)))).toBe(
      "Colours alone would be right 90 % of the time. That is about as often: look at the heat maps, it may have learned the background.",
    );
    expect(meaning(run(metric("accuracy", 0.9, 100)))).toBe("In brackets: the range of the true share, with 95 % confidence.");
  });

  test("has figures that were measured, and no others", () => {
    expect(figures(run(metric("accuracy", 0.5, 10))).map(({ text }) => text)).toEqual(["new pictures right"]);
    expect(figures(run(metric("accuracy", 0.5, 10), metric("top5_accuracy", 0.9, 10), metric("macro_recall", 0.4), metric("calibration_error", 0.02))).map(({ value }) => value)).toEqual(["50 %", "90 %", "40 %"]);
  });

  test("says whether more pictures would help", () => {
    const known = [metric("accuracy", 0.918, 734), metric("accuracy_half", 0.879), metric("accuracy_quarter", 0.841)];
    expect(moreOf(run(...known))?.text).toBe("Probably: twice as many would add about 3 points.");
    expect(moreOf(run(...known, metric("accuracy_folds", 0.88)))?.text).toBe("Hardly: twice as many would add less than a point.");
    expect(moreOf(run(metric("accuracy", 1, 9), metric("accuracy_half", 1), metric("accuracy_quarter", 1)))?.twice).toBe(1);
    expect(moreOf(run(metric("accuracy", 0.9, 10)))).toBeUndefined();
  });
});

describe("findings about pictures", () => {
  const finding = (kind: FindingView["kind"], count: number): FindingView => ({ kind, count, shown: [] });

  test("are counted in words", () => {
    expect([titleOf(finding("unread", 1)), titleOf(finding("identical", 14)), titleOf(finding("near", 1))]).toEqual(["1 picture can’t be read", "14 pictures are there twice", "1 pair is nearly equal"]);
  });

  test("say of a picture what matters of it", () => {
    const picture = { name: "a.png", class: "rose", part: "held_out" as const, width: 20, height: 9, thumb: null };
    expect(aboutOf(finding("tiny", 1), { pictures: [], problem: null }, picture)).toBe("rose · 20 × 9");
    expect(aboutOf(finding("across_parts", 1), { pictures: [], problem: null }, picture)).toBe("rose · held out");
    expect(aboutOf(finding("unread", 1), { pictures: [], problem: "is HEIC: use `sips`" }, picture)).toBe("is HEIC: use “sips”");
  });
});

describe("the pictures of a data set", () => {
  const show = (path: string) => render(PictureSet, { set: { path } as DataSetView });

  test("are shown by class, a page at a time", async () => {
    show("/Users/mira/Pictures/garden-flowers");
    await screen.findByText("1–30 of 3,670");
    expect(screen.getByText("pixels at most").parentElement?.textContent).toBe("pixels at most4032 × 3024");
    await userEvent.click(screen.getByRole("button", { name: "Next" }));
    await screen.findByText("31–60 of 3,670");
    await userEvent.click(screen.getByRole("button", { name: /^rose 641/ }));
    await screen.findByText("1–30 of 641");
    expect(screen.getAllByRole("img", { name: /^rose: rose\/IMG_/ }).length).toBe(30);
    expect(screen.queryByRole("img", { name: /^tulip/ })).toBeNull();
  });

  test("are checked, the worst first, with what to do", async () => {
    show("/Users/mira/Pictures/garden-flowers");
    await userEvent.click(await screen.findByRole("radio", { name: "Checkup · 2" }));
    const titles = screen.getAllByRole("heading", { level: 3 }).map((each) => each.textContent.trim());
    expect(titles).toEqual(["3 pictures can’t be read", "2 pairs stand in two classes", "14 pictures are there twice", "1 picture is very small"]);
    expect(screen.getByText(/^They are equal, or nearly\. Where both show the same, one label is wrong/)).toBeTruthy();
    await userEvent.click(screen.getByRole("button", { name: "Show 3 more" }));
    expect(screen.getByText("and 5 more")).toBeTruthy();
  });

  test("are said to be fine where nothing is wrong, and unequal where one class has few", async () => {
    const { unmount } = show("/Users/mira/hundred");
    await userEvent.click(await screen.findByRole("radio", { name: "Checkup" }));
    await screen.findByText("Nothing is wrong");
    unmount();
    show("/Users/mira/cars");
    await userEvent.click(await screen.findByRole("radio", { name: "Checkup · 1" }));
    await screen.findByText(/^convertible with the roof down has 412 pictures, pickup truck 38\./);
  });

  test("say why none can be read", async () => {
    show("/Users/mira/damaged-photos");
    expect((await screen.findByRole("alert")).textContent).toContain("there is no picture that can be read");
  });
});

describe("the form of pictures", () => {
  test("learns from scratch, or from a network that it asks for", async () => {
    expect([methodOf({}), methodOf({ model: "/m" }), methodOf({ model: "/m", "picture.method": "scratch" })]).toEqual(["scratch", "features", "scratch"]);
    render(Train, { filled: { task: "picture" } });
    expect(screen.getByRole("button", { name: "Add folder…" })).toBeTruthy();
    expect(screen.getByText(/^Pictures come in a folder/)).toBeTruthy();
    await userEvent.click(screen.getByRole("radio", { name: /^A few photos/ }));
    expect(screen.getByRole("button", { name: "Choose a network" })).toBeTruthy();
    // It learns in no steps.
    expect(screen.queryByText("Duration")).toBeNull();
    await userEvent.click(screen.getByRole("button", { name: "choose a file" }));
    await waitFor(() => expect(draft.asked).toMatchObject({ task: "picture", model: "/Users/mira/Models/resnet18.pth", "picture.method": "features" }));
    await userEvent.click(screen.getByRole("radio", { name: /^From scratch.+/ }));
    await userEvent.click(screen.getByRole("radio", { name: "Small" }));
    expect(draft.asked).toEqual({ task: "picture", "picture.method": "scratch", "picture.recipe": "small" });
  });

  test("shows some pictures, and asks what a mirror does to them", async () => {
    render(Train, { filled: { task: "picture", "data.files": "[/Users/mira/Pictures/garden-flowers]" } });
    await screen.findByRole("img", { name: "daisy, mirrored" });
    await screen.findByText("3,670 pictures in 5 classes, seen with 32 × 32 pixels · 3 can’t be read");
    const question = screen.getByRole("group", { name: "Does a mirrored picture mean the same?" });
    // The recipe mirrors them in its own way.
    await waitFor(() => expect((within(question).getByRole("radio", { name: "Yes" }) as HTMLInputElement).checked).toBe(true));
    await userEvent.click(within(question).getByRole("radio", { name: "No" }));
    expect(draft.asked["picture.flip"]).toBe("none");
    await userEvent.click(within(question).getByRole("radio", { name: "Yes" }));
    expect(draft.asked["picture.flip"]).toMatch(/^(alternating|random)$/);
    await userEvent.click(screen.getByRole("checkbox", { name: /a little moved/ }));
    expect(draft.asked["picture.augment"]).toBe("false");
    // Features are of the pictures as they are.
    await userEvent.click(screen.getByRole("radio", { name: /^A few photos/ }));
    expect(screen.queryByRole("checkbox", { name: /a little moved/ })).toBeNull();
    expect(draft.asked["picture.augment"]).toBeUndefined();
  });
});

describe("the page of a run of pictures", () => {
  test("has its confusion, its surest mistakes with what spoke for them, and each class", async () => {
    render(Run, { id: FLOWERS });
    await screen.findByRole("heading", { name: "Held-out pictures" });
    expect(screen.getByText("Right on 674 of 734 new pictures: 91.8 % (89.6–93.6)")).toBeTruthy();
    const grid = await screen.findByRole("grid", { name: /^Held-out pictures/ });
    // Before a cell is chosen, the worst mistake is told.
    expect(screen.getByText("tulip, said to be rose: 14 of 159, 8.8 %")).toBeTruthy();
    await userEvent.click(within(grid).getByRole("gridcell", { name: /^rose, said to be tulip/ }));
    expect(screen.getByText("rose, said to be tulip: 13 of 128, 10.2 %")).toBeTruthy();
    const cell = within(screen.getByRole("list", { name: "Pictures of rose, said to be tulip" }));
    expect(cell.getAllByRole("img", { name: /^rose\/IMG_32\d\d\.jpg: rose, said to be tulip$/ }).length).toBe(3);
    expect(screen.getByText("3 of 13 pictures are kept, of which it was surest.")).toBeTruthy();
    await userEvent.click(within(grid).getByRole("gridcell", { name: /^rose, said to be daisy/ }));
    expect(screen.queryByText(/are kept/)).toBeNull();
    expect(screen.getAllByRole("img", { name: /^What speaks for / }).length).toBe(8);
    expect(screen.getByRole("img", { name: /^tulip\/IMG_2000\.jpg: tulip, said to be rose$/ })).toBeTruthy();
    const rows = () => within(screen.getByRole("table", { name: "How each class is found" })).getAllByRole("row").slice(1).map((row) => [...row.children].map((cell) => cell.textContent.trim()));
    expect(rows()[0]).toEqual(["rose", "128", "87.5 % 80.7–92.2", "87.5 % 80.7–92.2"]);
    await userEvent.click(screen.getByRole("button", { name: /^Precision/ }));
    expect(rows()[0]![0]).toBe("rose");
    await userEvent.click(screen.getByRole("button", { name: /^Precision/ }));
    expect(rows()[0]![0]).toBe("sunflower");
    expect(screen.getByText("Probably: twice as many would add about 2 points.")).toBeTruthy();
  });

  test("leads to a run that goes further, where the network stayed as it was", async () => {
    const learned = (await api.runs()).find(({ id }) => id === FLOWERS)!;
    const { unmount } = render(Actions, { run: learned, place: null, onerror: () => {} });
    expect(screen.queryByRole("button", { name: "Go further…" })).toBeNull();
    unmount();
    render(Actions, { run: { ...learned, method: "features" }, place: null, onerror: () => {} });
    // More steps of its own would find nothing.
    expect(screen.queryByRole("button", { name: "Train longer…" })).toBeNull();
    await userEvent.click(screen.getByRole("button", { name: "Go further…" }));
    await waitFor(() => expect(route.now).toMatchObject({ page: "train", filled: { task: "picture", model: FLOWERS, "picture.method": "fine_tune" } }));
    const { filled } = route.now as { filled: Record<string, string> };
    expect(Object.keys(filled).filter((field) => !["task", "model", "picture.method", "data.files", "data.held_out", "seed"].includes(field))).toEqual([]);
  });

  test("writes the network for other programs, and says how far off that is", async () => {
    render(Run, { id: FLOWERS });
    await userEvent.click(await screen.findByRole("button", { name: "Export…" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Export “Garden flowers”" }));
    await userEvent.click(await dialog.findByRole("radio", { name: /^Core ML/ }));
    await userEvent.click(dialog.getByRole("button", { name: "Export" }));
    await dialog.findByText(/^45 MB\. Compared by 8 drawn pictures: scores are less than 0\.0001 % of the largest apart; the file was read again/);
    expect(dialog.getByText("/Users/mira/Documents/Garden-flowers.mlmodel")).toBeTruthy();
    expect(dialog.getByText("Pictures are shown to it from 0 to 1; mean and deviation are inside.")).toBeTruthy();
  });

  test("shows a hundred classes as a picture, and names those that are confused most", async () => {
    render(Run, { id: "2026-11-14-hundred-things-11aa" });
    const picture = await screen.findByRole("img", { name: "100 classes by what they were said to be" });
    picture.getBoundingClientRect = () => ({ left: 0, top: 0, width: 100, height: 100 }) as DOMRect;
    await fireEvent.pointerMove(picture, { clientX: 0.5, clientY: 0.5 });
    expect(screen.getByText(/^apple, said to be apple: \d+ of \d+/)).toBeTruthy();
    expect(screen.getByRole("heading", { name: "Most often confused" })).toBeTruthy();
    expect(screen.queryByRole("grid")).toBeNull();
    await userEvent.click(screen.getByRole("button", { name: "Show all 100" }));
    expect(screen.getAllByRole("row").length).toBe(101);
  });
});

describe("the page that classifies", () => {
  const open = async (name = FLOWERS) => {
    render(Predict, { name });
    await screen.findByText("Drop pictures here");
  };

  test("says what a picture shows, and what speaks for each class", async () => {
    await open();
    expect(screen.getByText(/daisy, dandelion, rose, sunflower, tulip/)).toBeTruthy();
    await userEvent.click(screen.getAllByRole("button", { name: "Open pictures…" })[0]!);
    await screen.findByText("41 % sure: hardly more than a guess.");
    expect(screen.getByRole("img", { name: "tulip-unsure.jpg, with what speaks for tulip" })).toBeTruthy();
    await userEvent.click(screen.getByRole("radio", { name: /^rose/ }));
    expect(screen.getByRole("img", { name: "tulip-unsure.jpg, with what speaks for rose" })).toBeTruthy();
    await userEvent.click(screen.getByRole("checkbox", { name: /^Heat map/ }));
    expect(screen.getByRole("img", { name: "tulip-unsure.jpg" }).querySelectorAll("canvas").length).toBe(1);
    // It stays so for the next one, until a class is chosen.
    await userEvent.click(screen.getByRole("radio", { name: /^daisy/ }));
    expect(screen.getByRole("img", { name: "tulip-unsure.jpg, with what speaks for daisy" })).toBeTruthy();
  });

  test("takes a folder that is dropped on it, and lists what came of each picture", async () => {
    await open();
    expect(app.takes?.(["/Users/mira/Pictures/new"])).toBe(true);
    await screen.findByText("12 pictures");
    const list = screen.getByRole("list", { name: "Pictures that were asked about" });
    await waitFor(() => expect(within(list).getAllByRole("button").length).toBe(12));
    await userEvent.click(within(list).getByRole("button", { name: /^Can’t be read/ }));
    expect(screen.getByRole("alert").textContent).toContain("Is no picture that can be read");
    await userEvent.click(within(list).getAllByRole("button", { name: /^rose/ })[0]!);
    expect(screen.getByText("81.2 % sure.")).toBeTruthy();
    await userEvent.click(screen.getByRole("button", { name: "Clear" }));
    expect(screen.getByText("Drop pictures here")).toBeTruthy();
    app.takes?.(["/Users/mira/empty"]);
    expect((await screen.findByRole("alert")).textContent).toContain("there is no picture in the folder");
  });

  test("takes a picture that is pasted, and leaves what is typed elsewhere alone", async () => {
    await open();
    const file = new File([new Uint8Array([1, 2, 3])], "rose.png", { type: "image/png" });
    await fireEvent.paste(window, { clipboardData: { files: [file] } });
    await screen.findByRole("img", { name: /^rose\.png/ });
    const asked = window.annealFake!.asked.findLast(([name]) => name === "predictPasted")![1];
    expect(asked).toEqual(["rose.png", "AQID"]);
    const before = window.annealFake!.asked.length;
    await fireEvent.paste(window, { clipboardData: { files: [new File(["x"], "notes.txt", { type: "text/plain" })] } });
    expect(window.annealFake!.asked.length).toBe(before);
  });

  test("says why a model can’t be opened, and how to get one where there is none", async () => {
    render(Predict, { name: "gone" });
    await screen.findByText(/does not say what its network is/);
  });

  test("counts pictures by what they show", () => {
    const asked = (name: string) => ({ said: { ranked: [{ class: name }] } }) as Asked;
    expect(tallied([asked("a"), asked("b"), asked("b"), { said: null } as Asked])).toEqual([
      { name: "b", count: 2 },
      { name: "a", count: 1 },
    ]);
  });
});

describe("the pages that models are tried on", () => {
  const run = (uses: string[], saved = true) => ({ uses, saved }) as RunView;

  test("are those for which there is something, and the one that is open", () => {
    const texts = (page: Parameters<typeof placesFor>[0], runs: RunView[]) => placesFor(page, runs).map(({ text }) => text);
    expect(texts("chat", [])).toEqual(["Chat"]);
    expect(texts("predict", [])).toEqual(["Chat", "Classify"]);
    expect(texts("chat", [run(["solve"]), run(["predict"], false)])).toEqual(["Chat", "Solve"]);
    expect(texts("chat", [run(["solve"]), run(["predict"])])).toEqual(["Chat", "Solve", "Classify"]);
  });

  test("lead from one to the other", async () => {
    render(Predict, { name: FLOWERS });
    await userEvent.click(await screen.findByRole("radio", { name: "Solve" }));
    expect(route.now).toEqual({ page: "solve" });
  });
});
