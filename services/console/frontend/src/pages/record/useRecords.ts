import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { get, toApiError, type ApiError, type Archive, type Page, type RecordItem } from "../../api";
import type { LivePool } from "../../live";
import { recordsPath } from "./recordRows";

const FIRST_PAGE = 100;
const PAGE = 200;
const MAX_ITEMS = 2_000;
const REFRESH_MS = 1_500;

export interface Records {
  items: RecordItem[];
  more: boolean;
  loading: boolean;
  failure: ApiError | null;
  loadOlder: () => void;
}

/** Records of the archive, newest first, updated while the log grows. query: filter parameters. paused: no updates. */
export function useRecords(pool: string, query: string, archive: Archive, live: LivePool, paused: boolean): Records {
  const state = useSignal<Omit<Records, "loadOlder">>({ items: [], more: true, loading: true, failure: null });
  const nextSeq = useRef(-1); // first record not loaded yet
  const busy = useRef(false);
  const available = archive.state === "there";

  const fetchPage = async (part: string, apply: (page: Page<RecordItem>) => Partial<Records>, signal?: AbortSignal): Promise<void> => {
    if (busy.current) return;
    busy.current = true;
    try {
      const page = await get<Page<RecordItem>>(recordsPath(pool, part, query), signal);
      if (!signal?.aborted) state.value = { ...state.peek(), ...apply(page), loading: false, failure: null };
    } catch (error) {
      if (!signal?.aborted) state.value = { ...state.peek(), loading: false, failure: toApiError(error) };
    } finally {
      busy.current = false;
    }
  };

  useEffect(() => {
    if (!available) return;
    const stop = new AbortController();
    busy.current = false;
    nextSeq.current = -1;
    state.value = { items: [], more: true, loading: true, failure: null };
    const first = (): Promise<void> =>
      fetchPage(`limit=${FIRST_PAGE}`, (page) => {
        nextSeq.current = Math.max(nextSeq.current, (page.items[0]?.seq ?? -1) + 1);
        return { items: page.items, more: page.items.length === FIRST_PAGE };
      }, stop.signal);
    const next = (): Promise<void> =>
      fetchPage(`order=asc&limit=${PAGE}&from_seq=${nextSeq.current}`, (page) => {
        nextSeq.current = Math.max(nextSeq.current, (page.items.at(-1)?.seq ?? -1) + 1);
        return page.items.length ? { items: [...page.items.reverse(), ...state.peek().items].slice(0, MAX_ITEMS) } : {};
      }, stop.signal);
    void first();
    const timer = setInterval(() => {
      if (document.hidden || pausedRef.current) return;
      if (nextSeq.current < 0) void first();
      else if (live.seq.peek() >= nextSeq.current) void next();
    }, REFRESH_MS);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [pool, query, available]);

  const pausedRef = useRef(paused);
  pausedRef.current = paused;
  const loadOlder = (): void => {
    const oldest = state.peek().items.at(-1)?.seq;
    if (oldest === undefined) return;
    void fetchPage(`limit=${PAGE}&to_seq=${oldest}`, (page) => ({ items: [...state.peek().items, ...page.items], more: page.items.length === PAGE }));
  };
  return { ...state.value, loadOlder };
}
