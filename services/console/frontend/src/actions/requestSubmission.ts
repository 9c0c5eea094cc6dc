import { signal } from "@preact/signals";

import { toApiError, type ApiError, type RequestOutcome } from "../api";
import { newId, send, type RequestBody } from "./requests";

type State = { status: "ready" } | { status: "sending" } | { status: "answered"; answer: RequestOutcome } | { status: "failed"; error: ApiError };

/**
 * Sends one request once: while it is in flight and after a response, `submit` does nothing. After a transport error it can be
 * retried with the same id, so that it is processed once even if the first attempt arrived.
 */
export class RequestSubmission {
  readonly state = signal<State>({ status: "ready" });

  constructor(
    private readonly pool: string,
    readonly id: string = newId(),
    private readonly post: typeof send = send,
  ) {}

  async submit(request: RequestBody): Promise<RequestOutcome | null> {
    const { status } = this.state.peek();
    if (status === "sending" || status === "answered") return null;
    this.state.value = { status: "sending" };
    try {
      const answer = await this.post(this.pool, this.id, request);
      this.state.value = { status: "answered", answer };
      return answer;
    } catch (failure) {
      this.state.value = { status: "failed", error: toApiError(failure) };
      return null;
    }
  }
}
