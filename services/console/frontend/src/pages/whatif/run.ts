import { signal } from "@preact/signals";

import { asRefusal, get, poolPath, post, Refusal, remove } from "../../lib/api";
import { draft, dropDraft, keepDraft } from "../submit/drafts";
import type { WhatIfResult } from "./result";
import type { Ends } from "./stretch";

export type Doing = "reading" | "simulating";

/** `/api/what-ifs/{id}`. done, of: how far it is, in records read or in turns simulated; of 0: not known yet. */
export interface Told {
  state: Doing | "done" | "failed" | "cancelled";
  done: number;
  of: number;
  result: WhatIfResult | null;
  report?: string | null;
  detail?: string | null;
}

interface Kept {
  id: string;
  yaml: string;
}

type State = { at: "idle" } | { at: "asking" } | { at: "running"; doing: Doing; done: number; of: number; stopping: boolean } | { at: "done"; result: WhatIfResult; report: string | null } | { at: "cancelled" } | { at: "failed"; refusal: Refusal };

const BEGUN: State = { at: "running", doing: "reading", done: 0, of: 0, stopping: false };
const AGAIN_MS = 700;
const LATER_MS = 3_000;

/** The past, simulated under another policy, on the server; found again after a reload. */
export class WhatIfRun {
  readonly state = signal<State>({ at: "idle" });
  /** The policy that was asked about. */
  readonly yaml = signal<string | null>(null);
  private id: string | null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private ended = false;

  constructor(private readonly pool: string) {
    const kept = draft<Kept>(this.key);
    this.id = kept?.id ?? null;
    this.yaml.value = kept?.yaml ?? null;
    if (this.id !== null) {
      this.state.value = BEGUN;
      void this.look();
    }
  }

  private get key(): string {
    return `what-if-run-${this.pool}`;
  }

  async start(yaml: string, ends: Ends): Promise<void> {
    if (this.state.peek().at === "asking" || this.state.peek().at === "running") return;
    this.state.value = { at: "asking" };
    try {
      const { id } = await post<{ id: string }>(poolPath(this.pool, "what-if"), { yaml, ...ends });
      this.id = id;
      this.yaml.value = yaml;
      keepDraft(this.key, { id, yaml } satisfies Kept);
      this.state.value = BEGUN;
      await this.look();
    } catch (failure) {
      this.state.value = { at: "failed", refusal: asRefusal(failure) };
    }
  }

  async cancel(): Promise<void> {
    const before = this.state.peek();
    if (before.at !== "running" || this.id === null) return;
    this.state.value = { ...before, stopping: true };
    try {
      await remove(this.path(this.id));
      this.over({ at: "cancelled" });
    } catch (failure) {
      if (failure instanceof Refusal && failure.status === 404) this.over({ at: "cancelled" });
      else this.state.value = { ...before, stopping: false };
    }
  }

  /** The page is left: the server goes on, and it is looked for again by the next page. */
  leave(): void {
    this.ended = true;
    clearTimeout(this.timer);
  }

  private path = (id: string): string => `/api/what-ifs/${encodeURIComponent(id)}`;

  private async look(): Promise<void> {
    const id = this.id;
    if (id === null || this.ended) return;
    try {
      const told = await get<Told>(this.path(id));
      const before = this.state.peek();
      if (this.id !== id || this.ended || before.at !== "running") return;
      if (told.result) this.over({ at: "done", result: told.result, report: told.report ?? null }, true);
      else if (told.state === "cancelled") this.over({ at: "cancelled" });
      else if (told.state === "failed" || told.state === "done") this.over({ at: "failed", refusal: new Refusal(500, "The simulation failed", told.detail ?? "") });
      else {
        this.state.value = { at: "running", doing: told.state, done: told.done, of: told.of, stopping: before.stopping };
        this.timer = setTimeout(() => void this.look(), AGAIN_MS);
      }
    } catch (failure) {
      const refusal = asRefusal(failure);
      if (refusal.status === 404) this.over(this.state.peek().at === "running" ? { at: "idle" } : this.state.peek());
      else if (refusal.status === 0 || refusal.status >= 500) this.timer = setTimeout(() => void this.look(), LATER_MS);
      else this.over({ at: "failed", refusal });
    }
  }

  private over(state: State, findAgain = false): void {
    clearTimeout(this.timer);
    this.state.value = state;
    if (!findAgain) {
      this.id = null;
      dropDraft(this.key);
    }
  }
}
