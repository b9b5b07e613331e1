// What follows from counts of what things are (rows) by what they were said to be (columns).

type Counts = readonly (readonly number[])[];

/** How a class was found. */
export interface ClassFigures {
  name: string;
  /** How many are of it, how many were said to be, and how many of those are. */
  is: number;
  said: number;
  right: number;
  /** The share of its own that was found, and of what was said to be it that is. Nothing where there is none. */
  recall: number | undefined;
  precision: number | undefined;
}

const sum = (numbers: readonly number[]) => numbers.reduce((all, each) => all + each, 0);
const share = (part: number, all: number) => (all > 0 ? part / all : undefined);

export function classFigures(classes: readonly string[], counts: Counts): ClassFigures[] {
  return classes.map((name, at) => {
    const row = counts[at] ?? [];
    const [is, said, right] = [sum(row), sum(counts.map((each) => each[at] ?? 0)), row[at] ?? 0];
    return { name, is, said, right, recall: share(right, is), precision: share(right, said) };
  });
}

/** How many are counted, and how many of them right. */
export function totals(counts: Counts): { right: number; of: number } {
  return { right: sum(counts.map((row, at) => row[at] ?? 0)), of: sum(counts.map(sum)) };
}

/** Classes that are most often taken for another: the most mistakes first. */
export function takenFor(counts: Counts, most: number): { of: number; as: number; rows: number; share: number }[] {
  const pairs = counts.flatMap((row, of) => {
    const all = sum(row);
    return row.flatMap((rows, as) => (as !== of && rows > 0 ? [{ of, as, rows, share: rows / all }] : []));
  });
  return pairs.sort((one, other) => other.rows - one.rows || other.share - one.share).slice(0, most);
}

/** The most mistakes of one kind. */
export function mostTaken(counts: Counts): number {
  return Math.max(0, ...counts.flatMap((row, of) => row.filter((_, as) => as !== of)));
}
