import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { archivePath, asRefusal, get, type Page, type Refusal } from "../../lib/api";
import type { Archive } from "../../lib/archive";
import type { Live } from "../../live/live";
import type { RecordItem } from "../job/shapes";

const AT_FIRST = 100;
const OLDER = 200;
const KEPT = 2_000;
const LOOK_EVERY_MS = 1_500;

export interface Records {
  items: RecordItem[];
  more: boolean;
  loading: boolean;
  failure: Refusal | null;
  older: () => void;
}

/** Records of the archive, the newest first, kept up while the log grows; `asked`: what it filters by. paused: they stay as they are. */
export function useRecords(pool: string, asked: string, archive: Archive, live: Live, paused: boolean): Records {
  const state = useSignal<Omit<Records, "older">>({ items: [], more: true, loading: true, failure: null });
  const from = useRef(-1); // the archive's records from here on were not looked at
  const busy = useRef(false);
  const there = archive.state === "there";

  const ask = async (query: string, take: (page: Page<RecordItem>) => Partial<Records>, signal?: AbortSignal): Promise<void> => {
    if (busy.current) return;
    busy.current = true;
    try {
      const page = await get<Page<RecordItem>>(archivePath(pool, `records?${query}${asked}`), signal);
      if (!signal?.aborted) state.value = { ...state.peek(), ...take(page), loading: false, failure: null };
    } catch (error) {
      if (!signal?.aborted) state.value = { ...state.peek(), loading: false, failure: asRefusal(error) };
    } finally {
      busy.current = false;
    }
  };

  useEffect(() => {
    if (!there) return;
    const stop = new AbortController();
    busy.current = false;
    from.current = -1;
    state.value = { items: [], more: true, loading: true, failure: null };
    const first = (): Promise<void> =>
      ask(`limit=${AT_FIRST}`, (page) => {
        from.current = Math.max(from.current, (page.items[0]?.seq ?? -1) + 1);
        return { items: page.items, more: page.items.length === AT_FIRST };
      }, stop.signal);
    const next = (): Promise<void> =>
      ask(`order=asc&limit=${OLDER}&from_seq=${from.current}`, (page) => {
        from.current = Math.max(from.current, (page.items.at(-1)?.seq ?? -1) + 1);
        return page.items.length ? { items: [...page.items.reverse(), ...state.peek().items].slice(0, KEPT) } : {};
      }, stop.signal);
    void first();
    const timer = setInterval(() => {
      if (document.hidden || pausedNow.current) return;
      if (from.current < 0) void first();
      else if (live.seq.peek() >= from.current) void next();
    }, LOOK_EVERY_MS);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [pool, asked, there]);

  const pausedNow = useRef(paused);
  pausedNow.current = paused;
  const older = (): void => {
    const oldest = state.peek().items.at(-1)?.seq;
    if (oldest === undefined) return;
    void ask(`limit=${OLDER}&to_seq=${oldest}`, (page) => ({ items: [...state.peek().items, ...page.items], more: page.items.length === OLDER }));
  };
  return { ...state.value, older };
}
