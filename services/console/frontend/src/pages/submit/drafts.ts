/** What somebody was writing, until this tab is closed. Storage may be full or forbidden: then drafts live as long as the page. */
export function keepDraft(key: string, value: unknown): void {
  try {
    sessionStorage.setItem(`bailiff-${key}`, JSON.stringify(value));
  } catch {
    /* see above */
  }
}

export function draft<T>(key: string): T | null {
  try {
    return JSON.parse(sessionStorage.getItem(`bailiff-${key}`) ?? "null") as T | null;
  } catch {
    return null;
  }
}

export function dropDraft(key: string): void {
  try {
    sessionStorage.removeItem(`bailiff-${key}`);
  } catch {
    /* see above */
  }
}
