import { signal } from "@preact/signals";

import { ApiError, get, setCsrfToken, type CurrentUser } from "../api";
import { syncClock } from "../lib";

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
