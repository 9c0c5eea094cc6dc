import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { get, toApiError, type ApiError } from "./client";

const REFRESH_MS = 60_000;

export interface Fetched<T> {
  value: T | undefined;
  failure: ApiError | undefined;
  loading: boolean;
}

/** Loads a value, again whenever `key` or `refreshKey` changes; key null: nothing. What there was of the same key stays meanwhile. */
function useLoad<T>(key: string | null, refreshKey: unknown, load: (signal: AbortSignal) => Promise<T>): ReadonlySignal<Fetched<T>> {
  const state = useSignal<Fetched<T> & { key: string | null }>({ value: undefined, failure: undefined, loading: true, key });
  useEffect(() => {
    if (key === null) return;
    const aborted = new AbortController();
    const { value: previous, failure: last } = state.peek().key === key ? state.peek() : { value: undefined, failure: undefined };
    state.value = { value: previous, failure: last, loading: true, key };
    load(aborted.signal).then(
      (value) => (state.value = { value, failure: undefined, loading: false, key }),
      (failure: unknown) => {
        if (!aborted.signal.aborted) state.value = { value: previous, failure: toApiError(failure), loading: false, key };
      },
    );
    return () => aborted.abort();
  }, [key, refreshKey]);
  return state;
}

/** Fetches `path`, again whenever it or `refreshKey` changes; null: nothing. */
export const useFetch = <T>(path: string | null, refreshKey: unknown = 0): ReadonlySignal<Fetched<T>> => useLoad(path, refreshKey, (signal) => get<T>(path!, signal));

interface Polled<T> {
  value: T | null;
  failure: ApiError | null;
  refresh: () => void;
}

/** Fetches a value, again once a minute (or as often as said of it; null: no more) while the tab is visible. key null: nothing yet. */
export function usePolling<T>(key: string | null, fetchValue: (signal: AbortSignal) => Promise<T>, interval: (value: T | null) => number | null = () => REFRESH_MS): Polled<T> {
  const generation = useSignal(0);
  const { value = null, failure = null } = useLoad(key, generation.value, fetchValue).value;
  const everyMs = interval(value);
  useEffect(() => {
    if (everyMs === null) return;
    const timer = setInterval(() => {
      if (!document.hidden) generation.value += 1;
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return { value, failure, refresh: () => (generation.value += 1) };
}
