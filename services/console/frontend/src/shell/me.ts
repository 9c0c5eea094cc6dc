import { signal } from "@preact/signals";

import { get, keepCsrf, Refusal } from "../lib/api";
import { learnClock } from "../lib/clock";

/** projects: those that may be submitted to; null: all. */
export interface Me {
  name: string;
  mode: "local" | "header" | "oidc";
  operator: boolean;
  projects: string[] | null;
  csrf: string;
  sign_out: boolean;
  time: string;
}

export const me = signal<Me | null>(null);
export const meFailure = signal<Refusal | null>(null);

export async function learnMe(): Promise<void> {
  try {
    const found = await get<Me>("/api/me");
    keepCsrf(found.csrf);
    learnClock(Date.parse(found.time));
    me.value = found;
    meFailure.value = null;
  } catch (failure) {
    if (failure instanceof Refusal && failure.status !== 401) meFailure.value = failure;
    else if (!(failure instanceof Refusal)) throw failure;
  }
}

export const maySubmitTo = (project: string): boolean => {
  const who = me.value;
  return who !== null && (who.operator || who.projects === null || who.projects.includes(project));
};
