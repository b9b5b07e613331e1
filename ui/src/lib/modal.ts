// A dialog over the page, which takes the focus and gives it back.

/** Takes note of what has the focus now. What it returns shows a dialog, and what that returns closes it. */
export function modal() {
  const before = document.activeElement;
  return (dialog: HTMLDialogElement) => {
    dialog.showModal();
    return () => {
      dialog.close();
      // One that left the page before it is closed gives nothing back by itself.
      if (document.activeElement === document.body && before instanceof HTMLElement) before.focus();
    };
  };
}
