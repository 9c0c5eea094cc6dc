import { signal } from "@preact/signals";

import type { LiveJob, LiveNode } from "../api";
import { currentUser, keepWhenHidden, type LivePool } from "../live";
import { jobNotice, nodeNotice, type Draft, type Notice } from "./noticeText";

const MOST = 100;
const KEY = "bailiff-notify";

/** Newest first. */
export const notices = signal<Notice[]>([]);
export const unread = signal(0);
let count = 0;

const permitted = (): boolean => typeof Notification !== "undefined" && Notification.permission === "granted";
export const notifying = signal(permitted() && localStorage.getItem(KEY) === "yes");
keepWhenHidden.value = notifying.value;

/** Switches notifications of the browser; asks it for permission first. */
export async function setNotifying(on: boolean): Promise<void> {
  const allowed = on && typeof Notification !== "undefined" && (await Notification.requestPermission()) === "granted";
  localStorage.setItem(KEY, allowed ? "yes" : "no");
  notifying.value = keepWhenHidden.value = allowed;
}

export function watchNotices(live: LivePool): void {
  live.onRow = (kind, before, after) => {
    const who = currentUser.peek();
    const draft = kind === "job" ? jobNotice(before as LiveJob | null, after as LiveJob | null, who?.name ?? "") : who?.operator ? nodeNotice(before as LiveNode | null, after as LiveNode | null) : null;
    if (draft) add(live.pool, draft);
  };
}

function add(pool: string, draft: Draft): void {
  count += 1;
  notices.value = [{ ...draft, id: count, at: Date.now() }, ...notices.peek()].slice(0, MOST);
  unread.value += 1;
  if (!draft.urgent || !notifying.peek() || !permitted()) return;
  const shown = new Notification("Bailiff", { body: draft.text, tag: `${pool} ${draft.job ?? ""}` });
  shown.onclick = () => window.focus();
}
