import { archivePath, poolPath, useFetch, type Archive, type Explained, type RawRecord } from "../../api";
import { isDecision, moment, momentAt, sanitizeLine, typeTitle } from "../../lib";
import { ExplanationSections } from "../../shared/ExplanationSections";
import { RecordVerification } from "../../shared/RecordVerification";
import { Button, decisionPath, Dialog, jobPath, Loading } from "../../ui";
import { signingKey } from "./signingKey";

interface Props {
  pool: string;
  seq: number;
  archive: Archive;
  head: number;
  goTo: (seq: number) => void;
  showSnapshot: (seq: number) => void;
  onClose: () => void;
}

/** One record: explanation, position, hashes, body and headers. */
export function RecordDialog({ pool, seq, archive, head, goTo, showSnapshot, onClose }: Props) {
  const available = archive.state === "there";
  const rawRecord = useFetch<RawRecord>(available ? archivePath(pool, `records/${seq}`) : null, seq).value;
  const explanation = useFetch<Explained>(poolPath(pool, "explain", seq), seq).value;
  const found = rawRecord.value;
  const header = (wanted: string) => found?.headers.find(([name]) => name === wanted)?.[1];
  const prev = header("ce_prev");
  const signer = signingKey(header("ce_request"));
  const vouched = (found?.data as { request?: { vouched_by?: { issuer: string; subject: string } } } | undefined)?.request?.vouched_by;
  const footer = (
    <>
      <Button disabled={seq <= 0} onClick={() => goTo(seq - 1)}>← #{seq - 1}</Button>
      <Button disabled={seq >= head} onClick={() => goTo(seq + 1)}>#{seq + 1} →</Button>
      <Button onClick={() => showSnapshot(seq)}>Pool state at #{seq}</Button>
    </>
  );
  return (
    <Dialog title={found ? `#${seq} ${typeTitle(found.type)}` : `Record #${seq}`} onClose={onClose} footer={footer}>
      {found && (
        <p>
          {isDecision(found.type) && <a href={decisionPath(pool, seq)}>Decision details</a>}
          {isDecision(found.type) && found.job && " · "}
          {found.job && <a href={jobPath(pool, found.job)}>Job {found.job}</a>}
        </p>
      )}
      {explanation.value && <ExplanationSections pool={pool} sections={explanation.value.sections} />}
      {explanation.loading && !explanation.value && <Loading what="the explanation" />}
      {explanation.failure && <p class="soft">The explanation is unavailable: {explanation.failure.message}</p>}
      {found && (
        <>
          <dl class="facts">
            <dt>Time</dt>
            <dd>{moment(found.time)}</dd>
            <dt>Hash</dt>
            <dd class="mono cut">{found.hash}</dd>
            <dt>Previous hash</dt>
            <dd class="mono cut">{typeof prev === "string" ? prev : "–"}</dd>
            <dt>Offset</dt>
            <dd>{found.offset}, appended {momentAt(found.appended_at / 1000)}</dd>
            {found.actor && <><dt>Requested by</dt><dd>{found.actor} {header("ce_auth") === "none" && <span class="soft">(not verified)</span>}</dd></>}
            {signer && <><dt>Signed by</dt><dd class="mono cut">{signer}</dd></>}
            {vouched && <><dt>Vouched for as</dt><dd>{sanitizeLine(`${vouched.subject} of ${vouched.issuer}`)}</dd></>}
          </dl>
          <h3>Body</h3>
          <pre class="well raw">{shownJson(found.data)}</pre>
          <details>
            <summary>{found.headers.length} headers</summary>
            <table class="table">
              <tbody>
                {found.headers.map(([name, value], at) => (
                  <tr key={at}>
                    <th scope="row">{name}</th>
                    <td class="mono cut">{typeof value === "string" ? value : JSON.stringify(value)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </details>
          <RecordVerification key={seq} pool={pool} seq={seq} shown={null} archived />
        </>
      )}
      {!available && archive.state === "none" && <p class="soft">The raw record is in the archive, and none is configured. Use bailiff audit show {seq}.</p>}
      {rawRecord.failure && <p class="soft">The raw record is unavailable: {rawRecord.failure.message}</p>}
    </Dialog>
  );
}

/** Indented JSON; bidirectional and invisible characters are escaped. */
const shownJson = (data: unknown): string =>
  JSON.stringify(data, null, 2).replace(/[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
