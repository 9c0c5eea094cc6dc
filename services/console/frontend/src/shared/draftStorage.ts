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

/** A job as it is stored while it is edited. */
export interface StoredJob {
  yaml: string;
  nameSuffix: string;
}

export const jobKey = (pool: string): string => `submit-${pool}`;

/** Stores a job as the draft of the Submit page. */
export const prefillSubmit = (pool: string, yaml: string): void => saveDraft(jobKey(pool), { yaml, nameSuffix: randomLetters(4) } satisfies StoredJob);

export function randomLetters(many: number): string {
  const signs = "abcdefghijkmnpqrstuvwxyz23456789";
  return [...crypto.getRandomValues(new Uint8Array(many))].map((byte) => signs[byte % signs.length]).join("");
}
