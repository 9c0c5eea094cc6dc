// The server's clock: timestamps of the log are relative to it, not to the client's clock, which may be wrong.
import { signal } from "@preact/signals";

let offsetMs = 0;

/** The server's time in ms; updated every second while the tab is visible. */
export const now = signal(Date.now());

export function syncClock(serverTime: number): void {
  offsetMs = serverTime - Date.now();
  now.value = Date.now() + offsetMs;
}

/** Updates `now` every second while the tab is visible. */
export function startClock(): void {
  const tick = (): void => {
    if (!document.hidden) now.value = Date.now() + offsetMs;
  };
  setInterval(tick, 1000);
  document.addEventListener("visibilitychange", tick);
}
