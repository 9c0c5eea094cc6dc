import { signal } from "@preact/signals";

// The server's clock, as the log's times are by it: a laptop whose clock is off must not show jobs from the future.
let ahead = 0;

/** Ticks once a second while the tab is seen; milliseconds. */
export const now = signal(Date.now());

export function learnClock(serverTime: number): void {
  ahead = serverTime - Date.now();
  now.value = Date.now() + ahead;
}

setInterval(() => {
  if (!document.hidden) now.value = Date.now() + ahead;
}, 1000);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) now.value = Date.now() + ahead;
});
