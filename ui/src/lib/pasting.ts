// Pasting outside a field. WebKit does so only on a page that says it takes it.

/** Says that the page takes what is pasted, where `isFor` says that it is meant. Returns how to say so no more. */
export function takePaste(isFor: (event: Event) => boolean): () => void {
  const take = (event: Event) => isFor(event) && event.preventDefault();
  window.addEventListener("beforepaste", take);
  return () => window.removeEventListener("beforepaste", take);
}

/** Whether something is typed into a field or a dialog, which takes what is pasted itself. */
export function isElsewhere({ target }: Event): boolean {
  const inField = target instanceof Element && target.closest("input, textarea, select, [contenteditable]");
  return Boolean(inField) || document.querySelector("dialog[open]") !== null;
}
