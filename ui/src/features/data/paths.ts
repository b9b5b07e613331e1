// Paths as they are shown.

export function nameOf(path: string): string {
  return path.split(/[\\/]/).filter(Boolean).at(-1) ?? path;
}

/** The end of the folder that a path lies in: what tells two files of one name apart. */
export function folderOf(path: string): string {
  const parts = path.split(/[\\/]/).filter(Boolean).slice(0, -1);
  const separator = path.includes("\\") ? "\\" : "/";
  const shown = parts.slice(-2).join(separator);
  return parts.length > 2 ? `…${separator}${shown}` : `${path.startsWith("/") ? "/" : ""}${shown}`;
}

/** Whether the app made the file itself from a text that was pasted: then it goes with its place in the list. */
export function isPasted(path: string): boolean {
  return /^pasted-\d{4}-\d{2}-\d{2}-\d{6}-[0-9a-f]{4}\.(txt|jsonl)$/.test(nameOf(path));
}
