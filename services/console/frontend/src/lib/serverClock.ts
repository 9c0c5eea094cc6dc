import { signal } from "@preact/signals";

// The server's clock: timestamps of the log are relative to it, not to the client's clock, which may be wrong.
let offsetMs = 0;

/** The server's time in ms; updated every second while the tab is visible. */
export const now = signal(Date.now());

export function syncClock(serverTime: number): void {
  offsetMs = serverTime - Date.now();
  now.value = Date.now() + offsetMs;
}

setInterval(() => {
  if (!document.hidden) now.value = Date.now() + offsetMs;
}, 1000);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) now.value = Date.now() + offsetMs;
});
