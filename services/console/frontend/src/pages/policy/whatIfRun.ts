import { signal } from "@preact/signals";

import { ApiError, get, poolPath, post, remove, toApiError, type Comparison, type WhatIfStatus } from "../../api";
import { dropDraft, loadDraft, saveDraft } from "../../shared/draftStorage";
import type { SegmentBounds } from "./logSegment";

export type Phase = "reading" | "simulating";

interface StoredRun {
  id: string;
  yaml: string;
}

type State = { at: "idle" } | { at: "asking" } | { at: "running"; phase: Phase; done: number; of: number; stopping: boolean } | { at: "done"; result: Comparison; report: string | null } | { at: "cancelled" } | { at: "failed"; error: ApiError };

const STARTED: State = { at: "running", phase: "reading", done: 0, of: 0, stopping: false };
const POLL_MS = 700;
const RETRY_MS = 3_000;

/** A simulation of the log under another policy, run on the server; resumed after a page reload. */
export class WhatIfRun {
  readonly state = signal<State>({ at: "idle" });
  /** The simulated policy. */
  readonly yaml = signal<string | null>(null);
  private id: string | null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private detached = false;

  constructor(private readonly pool: string) {
    const stored = loadDraft<StoredRun>(this.key);
    this.id = stored?.id ?? null;
    this.yaml.value = stored?.yaml ?? null;
    if (this.id !== null) {
      this.state.value = STARTED;
      void this.poll();
    }
  }

  private get key(): string {
    return `what-if-run-${this.pool}`;
  }

  async start(yaml: string, segmentBounds: SegmentBounds): Promise<void> {
    if (this.state.peek().at === "asking" || this.state.peek().at === "running") return;
    this.state.value = { at: "asking" };
    try {
      const { id } = await post<{ id: string }>(poolPath(this.pool, "what-if"), { yaml, ...segmentBounds });
      this.id = id;
      this.yaml.value = yaml;
      saveDraft(this.key, { id, yaml } satisfies StoredRun);
      this.state.value = STARTED;
      await this.poll();
    } catch (failure) {
      this.state.value = { at: "failed", error: toApiError(failure) };
    }
  }

  async cancel(): Promise<void> {
    const before = this.state.peek();
    if (before.at !== "running" || this.id === null) return;
    this.state.value = { ...before, stopping: true };
    try {
      await remove(this.path(this.id));
      this.finish({ at: "cancelled" });
    } catch (failure) {
      if (failure instanceof ApiError && failure.status === 404) this.finish({ at: "cancelled" });
      else this.state.value = { ...before, stopping: false };
    }
  }

  /** Stops polling when the page is left; the run continues on the server. */
  detach(): void {
    this.detached = true;
    clearTimeout(this.timer);
  }

  private path = (id: string): string => `/api/what-ifs/${encodeURIComponent(id)}`;

  private async poll(): Promise<void> {
    const id = this.id;
    if (id === null || this.detached) return;
    try {
      const status = await get<WhatIfStatus>(this.path(id));
      const before = this.state.peek();
      if (this.id !== id || this.detached || before.at !== "running") return;
      if (status.result) this.finish({ at: "done", result: status.result, report: status.report }, true);
      else if (status.state === "cancelled") this.finish({ at: "cancelled" });
      else if (status.state === "failed" || status.state === "done") this.finish({ at: "failed", error: new ApiError(500, "The simulation failed", status.detail) });
      else {
        this.state.value = { at: "running", phase: status.state, done: status.done, of: status.of, stopping: before.stopping };
        this.timer = setTimeout(() => void this.poll(), POLL_MS);
      }
    } catch (failure) {
      const error = toApiError(failure);
      if (error.status === 404) this.finish(this.state.peek().at === "running" ? { at: "idle" } : this.state.peek());
      else if (error.status === 0 || error.status >= 500) this.timer = setTimeout(() => void this.poll(), RETRY_MS);
      else this.finish({ at: "failed", error });
    }
  }

  private finish(state: State, keepStored = false): void {
    clearTimeout(this.timer);
    this.state.value = state;
    if (!keepStored) {
      this.id = null;
      dropDraft(this.key);
    }
  }
}
