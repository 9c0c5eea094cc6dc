import { signal } from "@preact/signals";

import { asRefusal, type Refusal } from "../lib/api";
import { newId, send, type Answer, type Asked } from "./requests";

type State = { at: "ready" } | { at: "sending" } | { at: "answered"; answer: Answer } | { at: "failed"; refusal: Refusal };

/**
 * One request, asked once: while it is on its way, and after it was answered, `go` does nothing. Where it failed on the way it may be
 * tried again, with the same id, so that it happens once even if the first try had arrived.
 */
export class Sending {
  readonly state = signal<State>({ at: "ready" });

  constructor(
    private readonly pool: string,
    readonly id: string = newId(),
    private readonly post: typeof send = send,
  ) {}

  async go(asked: Asked): Promise<Answer | null> {
    const { at } = this.state.peek();
    if (at === "sending" || at === "answered") return null;
    this.state.value = { at: "sending" };
    try {
      const answer = await this.post(this.pool, this.id, asked);
      this.state.value = { at: "answered", answer };
      return answer;
    } catch (failure) {
      this.state.value = { at: "failed", refusal: asRefusal(failure) };
      return null;
    }
  }
}
