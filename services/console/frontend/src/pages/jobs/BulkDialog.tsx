import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { AffectedJobsTable } from "../../actions/AffectedJobsTable";
import { JOB_ACTIONS } from "../../actions/allowedActions";
import { ReasonField } from "../../actions/RequestDialog";
import { newId, preview, send, withoutEmpty } from "../../actions/requests";
import { toApiError, type AffectedView, type PreviewAnswer, type RequestOutcome } from "../../api";
import { count } from "../../lib";
import { Button, Dialog, Loading } from "../../ui";

export const BULK_ACTIONS = ["pause", "resume", "cancel"] as const;
export type BulkAction = (typeof BULK_ACTIONS)[number];

interface Entry {
  job: string;
  id: string;
  /** Why it is left out; empty: it is not. */
  denied: string;
  preview: PreviewAnswer | null;
  outcome: RequestOutcome | null;
  failure: string;
}

/** Previews the same request for several jobs, one after the other, sends them, and shows each answer. */
export function BulkDialog({ pool, action, jobs, onClose }: { pool: string; action: BulkAction; jobs: readonly string[]; onClose: () => void }) {
  const { name, danger = false } = JOB_ACTIONS[action];
  const entries = useSignal<Entry[]>(jobs.map((job) => ({ job, id: newId(), denied: "", preview: null, outcome: null, failure: "" })));
  const reason = useSignal("");
  const phase = useSignal<"previewing" | "ready" | "sending" | "sent">("previewing");
  const update = (job: string, some: Partial<Entry>): void => {
    entries.value = entries.peek().map((each) => (each.job === job ? { ...each, ...some } : each));
  };
  useEffect(() => {
    let closed = false;
    void (async () => {
      for (const { job } of entries.peek()) {
        if (closed) return;
        try {
          const found = await preview(pool, { kind: action, job });
          update(job, { preview: found, denied: found.errors.map((error) => error.detail).join("; ") });
        } catch (failure) {
          update(job, { denied: toApiError(failure).message });
        }
      }
      if (!closed) phase.value = "ready";
    })();
    return () => void (closed = true);
  }, []);
  const submit = async (): Promise<void> => {
    phase.value = "sending";
    for (const entry of entries.peek()) {
      if (entry.denied || entry.outcome) continue;
      try {
        update(entry.job, { outcome: await send(pool, entry.id, { kind: action, ...withoutEmpty({ job: entry.job, reason: reason.value }) }), failure: "" });
      } catch (failure) {
        update(entry.job, { failure: toApiError(failure).message });
      }
    }
    phase.value = entries.peek().some((entry) => entry.failure) ? "ready" : "sent";
  };
  const possible = entries.value.filter((entry) => !entry.denied);
  const others = affectedOthers(entries.value);
  return (
    <Dialog
      title={`${name} ${count(jobs.length, "job")}`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{phase.value === "sent" ? "Close" : "Dismiss"}</Button>
          {phase.value !== "sent" && (
            <Button primary={!danger} danger={danger} disabled={phase.value !== "ready" || possible.length === 0} onClick={() => void submit()}>
              {phase.value === "sending" ? "Sending…" : `${name} ${count(possible.length, "job")}`}
            </Button>
          )}
        </>
      }
    >
      {phase.value === "previewing" && <Loading what={`the effects, ${entries.value.filter((entry) => entry.preview || entry.denied).length} of ${jobs.length}`} />}
      <ul class="stack cut" aria-live="polite">
        {entries.value.map((entry) => (
          <li key={entry.job}>
            <strong>{entry.job}</strong> <Result entry={entry} />
          </li>
        ))}
      </ul>
      {others.length > 0 && phase.value !== "sent" && (
        <>
          <h3>Other jobs that are affected</h3>
          <AffectedJobsTable pool={pool} rows={others} />
          <p class="soft note">Each request is previewed on its own: together they may free resources for other jobs.</p>
        </>
      )}
      {phase.value !== "sent" && <ReasonField value={reason.value} onInput={(text) => (reason.value = text)} more=", for each job" />}
    </Dialog>
  );
}

function Result({ entry }: { entry: Entry }) {
  if (entry.failure) return <span class="fault">{entry.failure} Sending again is safe: the request keeps its id.</span>;
  if (entry.outcome) {
    if (entry.outcome.accepted === null) return <span class="soft">sent; no answer yet</span>;
    return entry.outcome.accepted ? <span class="good">✓ accepted, record #{entry.outcome.seq}</span> : <span class="fault">✕ rejected: {entry.outcome.reason}</span>;
  }
  if (entry.denied) return <span class="fault">left out: {entry.denied}</span>;
  return <span class="soft">{entry.preview ? withoutName(entry.preview.sentences.join(" "), entry.job) : "…"}</span>;
}

/** A sentence about the job, after its name. */
const withoutName = (text: string, job: string): string => (text.startsWith(`${job} `) ? text.slice(job.length + 1) : text);

/** Jobs that the requests affect besides those that they name, each once. */
export function affectedOthers(entries: readonly { job: string; preview: Pick<PreviewAnswer, "affected"> | null }[]): AffectedView[] {
  const named = new Set(entries.map((entry) => entry.job));
  const found = new Map<string, AffectedView>();
  for (const row of entries.flatMap((entry) => entry.preview?.affected ?? [])) if (!named.has(row.job)) found.set(`${row.job} ${row.effect}`, row);
  return [...found.values()];
}
