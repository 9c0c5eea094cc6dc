import { signal } from "@preact/signals";

import { get, setCsrfToken, ApiError } from "../lib/api";
import { syncClock } from "../lib/serverClock";

/** projects: those that the user may submit to; null: all. */
export interface CurrentUser {
  name: string;
  mode: "local" | "header" | "oidc";
  operator: boolean;
  projects: string[] | null;
  csrf: string;
  sign_out: boolean;
  time: string;
}

export const currentUser = signal<CurrentUser | null>(null);
export const currentUserError = signal<ApiError | null>(null);

export async function loadCurrentUser(): Promise<void> {
  try {
    const user = await get<CurrentUser>("/api/me");
    setCsrfToken(user.csrf);
    syncClock(Date.parse(user.time));
    currentUser.value = user;
    currentUserError.value = null;
  } catch (failure) {
    if (failure instanceof ApiError && failure.status !== 401) currentUserError.value = failure;
    else if (!(failure instanceof ApiError)) throw failure;
  }
}

export const maySubmitTo = (project: string): boolean => {
  const who = currentUser.value;
  return who !== null && (who.operator || who.projects === null || who.projects.includes(project));
};
