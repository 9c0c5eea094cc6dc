import { signal } from "@preact/signals";

import { asRefusal, type Refusal } from "../lib/api";

interface State<Q, A> {
  /** What the answer is about; it may be older than what is asked now. */
  of: Q | null;
  answer: A | null;
  refusal: Refusal | null;
  asking: boolean;
}

/**
 * A question that changes while somebody types: asked when it has rested for `rest` ms, and only the answer to the newest one counts.
 */
export class Latest<Q, A> {
  readonly state = signal<State<Q, A>>({ of: null, answer: null, refusal: null, asking: false });
  private turn = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly ask: (question: Q) => Promise<A>,
    private readonly rest: number,
  ) {}

  /** null: nothing is to be asked any more. */
  put(question: Q | null, rest = this.rest): void {
    clearTimeout(this.timer);
    const turn = ++this.turn;
    if (question === null) {
      this.state.value = { of: null, answer: null, refusal: null, asking: false };
      return;
    }
    this.state.value = { ...this.state.peek(), asking: true };
    this.timer = setTimeout(() => void this.now(question, turn), rest);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.turn += 1;
  }

  private async now(question: Q, turn: number): Promise<void> {
    try {
      const answer = await this.ask(question);
      if (turn === this.turn) this.state.value = { of: question, answer, refusal: null, asking: false };
    } catch (failure) {
      if (turn === this.turn) this.state.value = { ...this.state.peek(), refusal: asRefusal(failure), asking: false };
    }
  }
}
