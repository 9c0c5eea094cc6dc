import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { toApiError, type ApiError } from "./api";

const REFRESH_MS = 60_000;

export interface Polled<T> {
  value: T | null;
  failure: ApiError | null;
  refresh: () => void;
}

/** Fetches a value, again once a minute while the tab is visible; the previous one stays meanwhile. key null: nothing yet. */
export function usePolling<T>(key: string | null, fetchValue: (signal: AbortSignal) => Promise<T>): Polled<T> {
  const generation = useSignal(0);
  const state = useSignal<{ key: string | null; value: T | null; failure: ApiError | null }>({ key: null, value: null, failure: null });
  useEffect(() => {
    if (key === null) return;
    const aborted = new AbortController();
    const previous = state.peek().key === key ? state.peek().value : null;
    state.value = { key, value: previous, failure: null };
    fetchValue(aborted.signal).then(
      (value) => (state.value = { key, value, failure: null }),
      (failure: unknown) => {
        if (!aborted.signal.aborted) state.value = { key, value: previous, failure: toApiError(failure) };
      },
    );
    return () => aborted.abort();
  }, [key, generation.value]);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) generation.value += 1;
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  const { value, failure } = state.value;
  return { value, failure, refresh: () => (generation.value += 1) };
}
