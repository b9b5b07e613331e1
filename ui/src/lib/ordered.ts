// Numbers in order.

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
