import { signal } from "@preact/signals";

import { toApiError, type ApiError } from "./client";

interface State<Q, A> {
  /** The input of `answer`; may be older than the current input. */
  of: Q | null;
  answer: A | null;
  error: ApiError | null;
  loading: boolean;
}

/**
 * A query that changes while the user types: sent after `delayMs` without a change; only the response to the newest one is used.
 */
export class DebouncedQuery<Q, A> {
  readonly state = signal<State<Q, A>>({ of: null, answer: null, error: null, loading: false });
  private generation = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly send: (input: Q) => Promise<A>,
    private readonly delayMs: number,
  ) {}

  /** Sets the input; null: no query. */
  set(input: Q | null, delayMs = this.delayMs): void {
    clearTimeout(this.timer);
    const generation = ++this.generation;
    if (input === null) {
      this.state.value = { of: null, answer: null, error: null, loading: false };
      return;
    }
    this.state.value = { ...this.state.peek(), loading: true };
    this.timer = setTimeout(() => void this.now(input, generation), delayMs);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.generation += 1;
  }

  private async now(input: Q, generation: number): Promise<void> {
    try {
      const answer = await this.send(input);
      if (generation === this.generation) this.state.value = { of: input, answer, error: null, loading: false };
    } catch (failure) {
      if (generation === this.generation) this.state.value = { ...this.state.peek(), error: toApiError(failure), loading: false };
    }
  }
}
