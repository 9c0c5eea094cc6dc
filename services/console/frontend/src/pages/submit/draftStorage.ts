/** Keeps drafts in session storage. If storage is full or blocked, drafts are lost when the page is closed. */
export function saveDraft(key: string, value: unknown): void {
  try {
    sessionStorage.setItem(`bailiff-${key}`, JSON.stringify(value));
  } catch {
    /* see above */
  }
}

export function loadDraft<T>(key: string): T | null {
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
