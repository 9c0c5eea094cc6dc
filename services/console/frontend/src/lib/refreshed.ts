import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { asRefusal, type Refusal } from "./api";

const REFRESH_MS = 60_000;

export interface Refreshed<T> {
  value: T | null;
  failure: Refusal | null;
  again: () => void;
}

/** The answer to what is asked, asked anew once a minute while the tab is seen; the last one stays meanwhile. asked null: nothing yet. */
export function useRefreshed<T>(asked: string | null, ask: (signal: AbortSignal) => Promise<T>): Refreshed<T> {
  const turn = useSignal(0);
  const state = useSignal<{ asked: string | null; value: T | null; failure: Refusal | null }>({ asked: null, value: null, failure: null });
  useEffect(() => {
    if (asked === null) return;
    const aborted = new AbortController();
    const kept = state.peek().asked === asked ? state.peek().value : null;
    state.value = { asked, value: kept, failure: null };
    ask(aborted.signal).then(
      (value) => (state.value = { asked, value, failure: null }),
      (failure: unknown) => {
        if (!aborted.signal.aborted) state.value = { asked, value: kept, failure: asRefusal(failure) };
      },
    );
    return () => aborted.abort();
  }, [asked, turn.value]);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) turn.value += 1;
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  const { value, failure } = state.value;
  return { value, failure, again: () => (turn.value += 1) };
}
