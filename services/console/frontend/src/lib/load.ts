import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { asRefusal, get, type Refusal } from "./api";

export interface Loaded<T> {
  value: T | undefined;
  failure: Refusal | undefined;
  loading: boolean;
}

/** Ask for `path`, again whenever it or `again` changes; null asks for nothing. The last value stays while a new one is on its way. */
export function useLoad<T>(path: string | null, again: unknown = 0): ReadonlySignal<Loaded<T>> & { value: Loaded<T> } {
  const state = useSignal<Loaded<T> & { path: string | null }>({ value: undefined, failure: undefined, loading: true, path });
  useEffect(() => {
    if (path === null) return;
    const aborted = new AbortController();
    const kept = state.peek().path === path ? state.peek().value : undefined;
    state.value = { value: kept, failure: undefined, loading: true, path };
    get<T>(path, aborted.signal).then(
      (value) => (state.value = { value, failure: undefined, loading: false, path }),
      (failure: unknown) => {
        if (aborted.signal.aborted) return;
        state.value = { value: kept, failure: asRefusal(failure), loading: false, path };
      },
    );
    return () => aborted.abort();
  }, [path, again]);
  return state;
}
