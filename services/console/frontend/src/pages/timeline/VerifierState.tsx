import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { archivePath, get, useFetch, type Page, type PoolItem, type RecordDetails } from "../../api";
import { count, moment } from "../../lib";
import { recordPath } from "../../ui";
import { ReplayVerifier, type ReplayState } from "../../verify/replayVerifier";
import { verifySeals, type SealItem } from "../../verify/seals";

const SEALS = 1_000;

/** Beside the player: what this browser has computed itself of the records that it passed, and which seal covers this one. */
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
  const archived = useFetch<PoolItem>(archivePath(pool, "").replace(/\/$/, "")).value.value;
  const items = useFetch<Page<SealItem>>(archivePath(pool, `seals?order=asc&limit=${SEALS}`)).value.value;
  const seals = useMemo(() => (archived && items ? verifySeals(pool, archived.identity, items.items) : null), [archived, items]);
  const seal = seals?.seals.find((each) => each.size > record.seq);
  const state = found.value?.seq === record.seq ? found.value : null;
  return (
    <section class="stack well verifier" aria-label="Verifier" aria-live="polite">
      <h3>Verifier, in this browser</h3>
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
      {seals && (
        <p>
          {seals.problem ? (
            <span class="bad">✗ Seals: {seals.problem}</span>
          ) : seal ? (
            <>
              <span class="good">✓ Signed seal</span> over the first {count(seal.size, "record")}, {moment(new Date(seal.sealed_at / 1000).toISOString())}.
            </>
          ) : (
            "No seal covers it yet."
          )}
        </p>
      )}
      <p class="soft mono digest">{record.hash}</p>
      <p class="soft">
        <a href={recordPath(pool, record.seq)}>Record, and proof of its inclusion</a>. To compute its decision again: <code>bailiff audit replay</code>
      </p>
    </section>
  );
}
