// Things in order.

/** How many of `values`, which are in order, are below `value`: the place where it stands or would stand. */
export function countBelow(values: ArrayLike<number>, value: number): number {
  let from = 0;
  let to = values.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (values[middle]! < value) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** Things by a number or a word. Those that have none come last, whichever way. */
export function sortedBy<T>(things: T[], value: (thing: T) => string | number | null, down: boolean): T[] {
  return [...things].sort((a, b) => {
    const [one, other] = [value(a), value(b)];
    if (one === null || other === null) return Number(one === null) - Number(other === null);
    const order = typeof one === "string" ? one.localeCompare(String(other), "en", { numeric: true }) : one - Number(other);
    return down ? -order : order;
  });
}
