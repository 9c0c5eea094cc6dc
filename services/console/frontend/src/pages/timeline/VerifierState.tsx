import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { archivePath, get, usePolling, type RecordDetails, type Verification } from "../../api";
import { count, sanitizeLine } from "../../lib";
import { recordPath } from "../../ui";
import { ReplayVerifier, type ReplayState } from "../../verify/replayVerifier";
import { sealHolds, type Seal, type SealItem } from "../../verify/seals";
import { chainText, isSettled, newestText, proposalsText, sealText, type Verdict } from "./verifierText";

const REFRESH_MS = 5_000;

/** Beside the player: what this browser has computed itself of the records that it passed, and what the auditor has. */
export function VerifierState({ pool, record }: { pool: string; record: RecordDetails }) {
  const verifier = useMemo(() => new ReplayVerifier(pool, (path) => get(archivePath(pool, path))), [pool]);
  const found = useSignal<ReplayState | null>(null);
  const failure = useSignal("");
  useEffect(() => {
    let stale = false;
    verifier.at(record).then(
      (state) => {
        if (!stale) [found.value, failure.value] = [state, ""];
      },
      (error: unknown) => void (!stale && (failure.value = String(error))),
    );
    return () => void (stale = true);
  }, [verifier, record.seq]);
  const audited = usePolling<Verification>(`${pool} ${record.seq}`, (signal) => get(archivePath(pool, `records/${record.seq}/verification`), signal), (value) => (value && isSettled(value) ? null : REFRESH_MS));
  const state = found.value?.seq === record.seq ? found.value : null;
  return (
    <section class="stack well verifier" aria-label="Verifier" aria-live="polite">
      <h3>Verified in this browser</h3>
      {failure.value ? (
        <p class="bad">It could not run: {failure.value}</p>
      ) : !state ? (
        <p class="soft">Computing the hash of #{record.seq}…</p>
      ) : (
        <>
          <p class={state.same ? "good" : "bad"}>
            <strong>{state.same ? `✓ #${state.seq} has the hash that its bytes give` : state.computed === null ? `✗ #${state.seq} does not continue the chain` : `✗ #${state.seq} has another hash than its bytes give`}</strong>
          </p>
          <p>
            Chain computed from #{state.first} to #{state.last}: {count(state.last - state.first + 1, "record")}, {state.orphans ? <span class="bad">{count(state.orphans, "message")} outside of it</span> : "no message outside of it"}.
          </p>
        </>
      )}
      {audited.value && state && <SealState pool={pool} audited={audited.value} state={state} verifier={verifier} />}
      <h3>Verified by the auditor</h3>
      {audited.value ? (
        <>
          {[chainText(audited.value), proposalsText(audited.value), newestText(audited.value)].map((verdict) => verdict && <VerdictLine key={verdict.text} verdict={verdict} />)}
        </>
      ) : (
        <p class={audited.failure ? "bad" : "soft"}>{audited.failure ? `Its checks could not be loaded: ${audited.failure.message}` : "Loading its checks…"}</p>
      )}
      <p class="soft mono cut">{record.hash}</p>
      <p class="soft">
        <a href={recordPath(pool, record.seq)}>Record, and proof of its inclusion</a>. To compute its decision again: <code>bailiff audit replay</code>
      </p>
    </section>
  );
}

function SealState({ pool, audited: { identity, seal, keys }, state, verifier }: { pool: string; audited: Verification; state: ReplayState; verifier: ReplayVerifier }) {
  const holds = useMemo(() => seal !== null && sealHolds(pool, identity, keys as SealItem[], seal.data as Seal), [pool, identity, seal?.offset, keys.length]);
  const isUnder = useSignal<boolean | null | undefined>(undefined);
  useEffect(() => {
    let stale = false;
    isUnder.value = undefined;
    if (seal && holds) verifier.isUnder(seal.data as Seal).then((found) => void (!stale && (isUnder.value = found)), () => void (!stale && (isUnder.value = null)));
    return () => void (stale = true);
  }, [verifier, state.seq, seal?.offset, holds]);
  if (!seal) return <p>No seal covers it yet.</p>;
  if (holds && isUnder.value === undefined) return <p class="soft">Computing the tree of the {count((seal.data as Seal).size, "sealed record")}…</p>;
  return <VerdictLine verdict={sealText(state, seal.data as Seal, holds, isUnder.value ?? null)} />;
}

function VerdictLine({ verdict: { ok, text, more } }: { verdict: Verdict }) {
  return (
    <p>
      <span class={ok === null ? "" : ok ? "good" : "bad"}>{text}</span>
      {more && <> <bdi class="soft">{sanitizeLine(more)}</bdi></>}
    </p>
  );
}
