import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { toApiError, get, type ApiError } from "./api";

export interface Fetched<T> {
  value: T | undefined;
  failure: ApiError | undefined;
  loading: boolean;
}

/** Fetches `path`, again whenever it or `refreshKey` changes; null: nothing. The previous value stays until the new one arrives. */
export function useFetch<T>(path: string | null, refreshKey: unknown = 0): ReadonlySignal<Fetched<T>> & { value: Fetched<T> } {
  const state = useSignal<Fetched<T> & { path: string | null }>({ value: undefined, failure: undefined, loading: true, path });
  useEffect(() => {
    if (path === null) return;
    const aborted = new AbortController();
    const previous = state.peek().path === path ? state.peek().value : undefined;
    state.value = { value: previous, failure: undefined, loading: true, path };
    get<T>(path, aborted.signal).then(
      (value) => (state.value = { value, failure: undefined, loading: false, path }),
      (failure: unknown) => {
        if (aborted.signal.aborted) return;
        state.value = { value: previous, failure: toApiError(failure), loading: false, path };
      },
    );
    return () => aborted.abort();
  }, [path, refreshKey]);
  return state;
}
