// How the controls of the form are found, by the page and by those who hear it.

/** The id of a field's control on the page. */
export function idOf(field: string): string {
  return `field-${field}`;
}

/** What says more about a control: its help and what is wrong with it. */
export function describedBy(id: string, help: unknown, problem: unknown): string | undefined {
  const ids = [help ? `${id}-help` : "", problem ? `${id}-problem` : ""];
  return ids.filter(Boolean).join(" ") || undefined;
}
