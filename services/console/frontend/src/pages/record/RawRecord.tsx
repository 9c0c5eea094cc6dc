import { archivePath, poolPath } from "../../lib/api";
import type { Archive } from "../../lib/archive";
import { useLoad } from "../../lib/load";
import { typeWords } from "../../lib/records";
import { isDecision } from "../../lib/terms";
import { moment } from "../../lib/words";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { decisionPath, jobPath } from "../../ui/Links";
import { Loading } from "../../ui/Loading";
import { type Explained, Sections } from "../../ui/Sections";
import { Verify } from "../decision/Verify";
import type { RecordItem } from "../job/shapes";
import "../decision/decision.css";

interface Whole extends RecordItem {
  offset: number;
  appended_at: number;
  headers: [string, unknown][];
}

interface Props {
  pool: string;
  seq: number;
  archive: Archive;
  head: number;
  go: (seq: number) => void;
  look: (seq: number) => void;
  close: () => void;
}

/** One record as it is: its place, its bytes, its hash and the one before; what it says in sentences. */
export function RawRecord({ pool, seq, archive, head, go, look, close }: Props) {
  const there = archive.state === "there";
  const raw = useLoad<Whole>(there ? archivePath(pool, `records/${seq}`) : null, seq).value;
  const told = useLoad<Explained>(poolPath(pool, "explain", seq), seq).value;
  const found = raw.value;
  const prev = found?.headers.find(([name]) => name === "ce_prev")?.[1];
  const footer = (
    <>
      <Button disabled={seq <= 0} onClick={() => go(seq - 1)}>← #{seq - 1}</Button>
      <Button disabled={seq >= head} onClick={() => go(seq + 1)}>#{seq + 1} →</Button>
      <Button onClick={() => look(seq)}>The pool then</Button>
    </>
  );
  return (
    <Dialog title={found ? `#${seq} ${typeWords(found.type)}` : `Record #${seq}`} onClose={close} footer={footer}>
      {found && (
        <p>
          {isDecision(found.type) && <a href={decisionPath(pool, seq)}>This decision as a story</a>}
          {isDecision(found.type) && found.job && " · "}
          {found.job && <a href={jobPath(pool, found.job)}>The job {found.job}</a>}
        </p>
      )}
      {told.value && <Sections pool={pool} sections={told.value.sections} />}
      {told.loading && !told.value && <Loading what="what it says" />}
      {told.failure && <p class="soft">It cannot be told in sentences now: {told.failure.detail || told.failure.title}</p>}
      {found && (
        <>
          <dl class="facts">
            <dt>Time</dt>
            <dd>{moment(found.time)}</dd>
            <dt>Hash</dt>
            <dd class="mono digest">{found.hash}</dd>
            <dt>Before it</dt>
            <dd class="mono digest">{typeof prev === "string" ? prev : "–"}</dd>
            <dt>Offset</dt>
            <dd>{found.offset}, appended {moment(new Date(found.appended_at / 1000).toISOString())}</dd>
            {found.actor && <><dt>Asked by</dt><dd>{found.actor}</dd></>}
          </dl>
          <h3>Body</h3>
          <pre class="raw" tabIndex={0}>{shownJson(found.data)}</pre>
          <details>
            <summary>{found.headers.length} headers</summary>
            <table class="table">
              <tbody>
                {found.headers.map(([name, value], at) => (
                  <tr key={at}>
                    <th scope="row">{name}</th>
                    <td class="mono digest">{typeof value === "string" ? value : JSON.stringify(value)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </details>
          <Verify key={seq} pool={pool} seq={seq} shown={null} archived />
        </>
      )}
      {!there && archive.state === "none" && <p class="soft">Its bytes are in the archive, and this console has none to ask. bailiff audit show {seq} prints them.</p>}
      {raw.failure && <p class="soft">Its bytes cannot be shown now: {raw.failure.detail || raw.failure.title}</p>}
    </Dialog>
  );
}

/** Indented, with what turns text round or hides in it written as its code. */
const shownJson = (data: unknown): string =>
  JSON.stringify(data, null, 2).replace(/[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
