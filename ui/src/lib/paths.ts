// Paths as they are shown.

/** The last part of a path. */
export function nameOf(path: string): string {
  return parts(path).at(-1) ?? path;
}

/** The end of the folder that a path lies in: what tells two files of one name apart. */
export function folderOf(path: string): string {
  const folders = parts(path).slice(0, -1);
  const separator = path.includes("\\") ? "\\" : "/";
  const shown = folders.slice(-2).join(separator);
  return folders.length > 2 ? `…${separator}${shown}` : `${path.startsWith("/") ? "/" : ""}${shown}`;
}

/** The folders of a path, and its name. */
export function parts(path: string): string[] {
  return path.split(/[\\/]/).filter(Boolean);
}
