import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { ApiError, archivePath, get, type RecordDetails } from "../api";
import { count, typeTitle } from "../lib";
import { Button, Card, DataTable, SeqLink } from "../ui";
import { verify, type ArchiveQuery, type ExpectedRecord, type Verified } from "../verify/verifyRecord";
import "./verification.css";

/** Verifies the record in the browser, from the bytes of the log. shown: the data that the page shows; null: that of the archive. */
export function RecordVerification({ pool, seq, shown, archived }: { pool: string; seq: number; shown: unknown; archived: boolean }) {
  const found = useSignal<Verified | null>(null);
  const failure = useSignal<string | null>(null);
  const progress = useSignal<[number, number] | null>(null);
  const trusted = useSignal("");
  const stop = useRef<AbortController | null>(null);
  useEffect(() => () => stop.current?.abort(), []);

  const run = async (wholeLog: boolean | null): Promise<void> => {
    const signal = (stop.current = new AbortController()).signal;
    const ask: ArchiveQuery = (path) => get(archivePath(pool, path), signal);
    failure.value = null;
    progress.value = [0, 0];
    try {
      const record = await ask<RecordDetails>(`records/${seq}`);
      const wanted: ExpectedRecord = { pool, seq, offset: record.offset, hash: record.hash, data: shown ?? record.data };
      found.value = await verify(ask, wanted, wholeLog, (done, of) => (progress.value = [done, of]), signal);
    } catch (error) {
      if (!signal.aborted) failure.value = error instanceof ApiError ? `${error.title}: ${error.detail}` : String(error);
    } finally {
      progress.value = null;
    }
  };
  const busy = progress.value !== null;
  const result = found.value;
  const wrong = result?.checks.some((check) => check.ok === false);
  return (
    <Card
      title="Verify"
      aside={
        busy ? (
          <>
            <span class="soft number" role="status">{progress.value![1] ? `${progress.value![0].toLocaleString("en")} of ${progress.value![1].toLocaleString("en")} records` : "loading…"}</span>
            <Button onClick={() => stop.current?.abort()}>Stop</Button>
          </>
        ) : (
          archived && <Button primary={!result} onClick={() => void run(null)}>{result ? "Verify again" : "Verify this record"}</Button>
        )
      }
    >
      {!result && !failure.value && (
        <p class="soft">
          {archived
            ? "Your browser reads the bytes of the log, computes the hash of each record, follows the chain, and checks the signature of the seal and the inclusion proof of this record."
            : "Verification needs the bytes of the log from the archive, and no archive is configured. Use bailiff audit verify instead."}
        </p>
      )}
      {failure.value && <p class="bad" role="alert">Verification failed to run. {failure.value}</p>}
      {result && (
        <>
          <p class="verdict" data-tone={wrong ? "bad" : "good"} role="status">
            {wrong ? "✗ Verification failed." : result.inclusion?.ok ? "✓ The record is in the chain and covered by a signed seal." : "✓ The record is in the chain."}
          </p>
          <ul class="stack checks">
            {result.checks.map((check) => (
              <li key={check.text} data-tone={check.ok === null ? undefined : check.ok ? "good" : "bad"}>
                <span class="sign" aria-hidden="true">{check.ok === null ? "–" : check.ok ? "✓" : "✗"}</span>
                <span>
                  <span class="visually-hidden">{check.ok === null ? "Not checked: " : check.ok ? "Valid: " : "Invalid: "}</span>
                  {check.text}
                  {check.more && check.more.length > 0 && (
                    <details>
                      <summary>{check.more[0]!.startsWith("first key") ? count(check.more.length, "key") : `${count(check.more.length, "hash", "hashes")} of the inclusion path, from the record to the root`}</summary>
                      <ol class="mono hashes">{check.more.map((each) => <li key={each}>{each}</li>)}</ol>
                    </details>
                  )}
                </span>
              </li>
            ))}
          </ul>
          {result.keys.length > 0 && <TrustedKeyInput keys={result.keys} value={trusted.value} set={(text) => (trusted.value = text)} />}
          {!result.wholeLog && !busy && <Button onClick={() => void run(true)}>Verify all {result.total.toLocaleString("en")} records from the first</Button>}
          <details class="gap">
            <summary>Hash links, record by record</summary>
            <DataTable
              caption="Records around this one, each with its hash link"
              rows={result.links}
              rowKey={(row) => row.offset}
              columns={[
                { head: "Record", cell: (row) => <SeqLink pool={pool} seq={row.seq} /> },
                { head: "Type", cell: (row) => (row.seq === seq ? <strong>{typeTitle(row.type)}</strong> : typeTitle(row.type)) },
                { head: "Computed hash", cell: (row) => <code title={row.hash}>{row.hash.slice(0, 16) || "–"}</code> },
                { head: "Previous hash", cell: (row) => <code title={row.prev}>{row.prev.slice(0, 16)}</code> },
                { head: "Link", cell: (row) => (row.reason ? `orphan: ${row.reason}` : "✓ valid") },
              ]}
            />
          </details>
        </>
      )}
    </Card>
  );
}

function TrustedKeyInput({ keys, value, set }: { keys: string[]; value: string; set: (text: string) => void }) {
  const text = value.trim();
  return (
    <div class="stack trust">
      <label for="trusted-key">The auditor's first key, from a trusted source</label>
      <input id="trusted-key" class="input mono" value={value} onInput={(event) => set(event.currentTarget.value)} placeholder="paste the key to compare" autocomplete="off" spellcheck={false} />
      {text && <span class={text === keys[0] ? "good" : "bad"} role="status">{text === keys[0] ? "✓ The first seal was signed with this key." : "✗ The first seal was signed with another key."}</span>}
    </div>
  );
}
