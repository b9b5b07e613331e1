// How time grows with the amount of work: that it does so evenly holds on every machine, unlike any number of milliseconds.

const TRIES = 3;

/** How many times longer ten times as much takes: 10 where time grows evenly, 100 where it grows with the square. */
export function growth(work: (amount: number) => unknown, amount: number): number {
  // Not by the clock: another program can take the processor away at any time, and does so the more the longer something takes.
  const worked = () => process.cpuUsage().user + process.cpuUsage().system;
  const least = (amount: number) => {
    const tries = Array.from({ length: TRIES }, () => {
      const before = worked();
      work(amount);
      return worked() - before;
    });
    return Math.max(1, Math.min(...tries));
  };
  const some = least(amount);
  return least(10 * amount) / some;
}

/** Between the two. */
export const EVENLY = 40;
