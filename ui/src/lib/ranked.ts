// Things whose names have what was typed in them: those that begin with it first, then words, then what else they are found
// by, then letters in order.

/** The things that fit `words`, the best first; all of them, in their order, when nothing was typed. */
export function ranked<T>(things: T[], words: string, nameOf: (thing: T) => string, moreOf: (thing: T) => string | undefined = () => undefined): T[] {
  const typed = words.trim().toLowerCase();
  if (typed === "") return things;
  const rated = things.map((thing, at) => ({ thing, at, rank: rank(nameOf(thing).toLowerCase(), (moreOf(thing) ?? "").toLowerCase(), typed) }));
  const fitting = rated.filter(({ rank }) => rank < Infinity);
  return fitting.sort((a, b) => a.rank - b.rank || a.at - b.at).map(({ thing }) => thing);
}

function rank(name: string, more: string, typed: string): number {
  if (name.startsWith(typed)) return 0;
  if (name.split(/[^\p{L}\p{N}]+/u).some((word) => word.startsWith(typed))) return 1;
  if (name.includes(typed)) return 2;
  if (more.includes(typed)) return 3;
  let at = 0;
  for (const letter of name) if (letter === typed[at]) at += 1;
  return at === typed.length ? 4 : Infinity;
}
