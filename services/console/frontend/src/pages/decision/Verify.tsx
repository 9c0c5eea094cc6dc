import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { archivePath, get, Refusal } from "../../lib/api";
import { typeWords } from "../../lib/records";
import { count } from "../../lib/words";
import { type Ask, verify, type Verified, type Wanted } from "../../verify/run";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import { SeqLink } from "../../ui/Links";

interface Whole {
  offset: number;
  hash: string;
  data: unknown;
}

/** Checks the record in this browser, from the bytes of the log. shown: what the page shows as its data; null: whatever the archive says. */
export function Verify({ pool, seq, shown, archived }: { pool: string; seq: number; shown: unknown; archived: boolean }) {
  const found = useSignal<Verified | null>(null);
  const failure = useSignal<string | null>(null);
  const progress = useSignal<[number, number] | null>(null);
  const trusted = useSignal("");
  const stop = useRef<AbortController | null>(null);
  useEffect(() => () => stop.current?.abort(), []);

  const run = async (whole: boolean | null): Promise<void> => {
    const signal = (stop.current = new AbortController()).signal;
    const ask: Ask = (path) => get(path ? archivePath(pool, path) : archivePath(pool, "").replace(/\/$/, ""), signal);
    failure.value = null;
    progress.value = [0, 0];
    try {
      const record = await ask<Whole>(`records/${seq}`);
      const wanted: Wanted = { pool, seq, offset: record.offset, hash: record.hash, data: shown ?? record.data };
      found.value = await verify(ask, wanted, whole, (done, of) => (progress.value = [done, of]), signal);
    } catch (error) {
      if (!signal.aborted) failure.value = error instanceof Refusal ? `${error.title}: ${error.detail}` : String(error);
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
            <span class="soft number" role="status">{progress.value![1] ? `${progress.value![0].toLocaleString("en")} of ${progress.value![1].toLocaleString("en")} records` : "asking…"}</span>
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
            ? "Your browser reads the bytes of the log, computes each record's hash itself, follows the chain, and checks the seal's signature and this record's place under it. It believes nobody but its own arithmetic."
            : "This needs the bytes of the log, which the archive gives out; this console has none to ask. The same is done by: bailiff audit verify."}
        </p>
      )}
      {failure.value && <p class="bad" role="alert">It could not be checked. {failure.value}</p>}
      {result && (
        <>
          <p class="verdict" data-wrong={wrong} role="status">
            {wrong ? "✗ Something does not hold." : result.inclusion?.ok ? "✓ The record stands in the chain and under a signed seal." : "✓ The record stands in the chain."}
          </p>
          <ul class="checks">
            {result.checks.map((check) => (
              <li key={check.text} data-ok={check.ok === null ? "unchecked" : check.ok}>
                <span class="sign" aria-hidden="true">{check.ok === null ? "–" : check.ok ? "✓" : "✗"}</span>
                <span>
                  <span class="visually-hidden">{check.ok === null ? "Not checked: " : check.ok ? "Holds: " : "Does not hold: "}</span>
                  {check.text}
                  {check.more && check.more.length > 0 && (
                    <details>
                      <summary>{check.more[0]!.startsWith("first key") ? count(check.more.length, "key") : `${count(check.more.length, "hash", "hashes")} of the path, from the record to the root`}</summary>
                      <ol class="mono hashes">{check.more.map((each) => <li key={each}>{each}</li>)}</ol>
                    </details>
                  )}
                </span>
              </li>
            ))}
          </ul>
          {result.keys.length > 0 && <Trust keys={result.keys} value={trusted.value} set={(text) => (trusted.value = text)} />}
          {!result.whole && !busy && <Button onClick={() => void run(true)}>Check all {result.total.toLocaleString("en")} records from the first one on</Button>}
          <details class="gap">
            <summary>Each link, record by record</summary>
            <DataTable
              caption="Records around this one, each with its link to the one before"
              rows={result.links}
              rowKey={(row) => row.offset}
              columns={[
                { head: "Record", cell: (row) => <SeqLink pool={pool} seq={row.seq} /> },
                { head: "Type", cell: (row) => (row.seq === seq ? <strong>{typeWords(row.type)}</strong> : typeWords(row.type)) },
                { head: "Hash, computed here", cell: (row) => <code title={row.hash}>{row.hash.slice(0, 16) || "–"}</code> },
                { head: "Names as the one before", cell: (row) => <code title={row.prev}>{row.prev.slice(0, 16)}</code> },
                { head: "Link", cell: (row) => (row.reason ? `passed over: ${row.reason}` : "✓ fits") },
              ]}
            />
          </details>
        </>
      )}
    </Card>
  );
}

function Trust({ keys, value, set }: { keys: string[]; value: string; set: (text: string) => void }) {
  const text = value.trim();
  return (
    <div class="trust">
      <label for="trusted-key">The auditor's first key, as it was written down elsewhere</label>
      <input id="trusted-key" class="input mono" value={value} onInput={(event) => set(event.currentTarget.value)} placeholder="paste it here to compare" autocomplete="off" spellcheck={false} />
      {text && <span class={text === keys[0] ? "good" : "bad"} role="status">{text === keys[0] ? "✓ It is the key that these seals begin with." : "✗ These seals begin with another key."}</span>}
    </div>
  );
}
