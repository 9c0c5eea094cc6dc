import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";

import type { Refusal } from "../lib/api";
import { useLive } from "../live/live";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { Failure } from "../ui/Failure";
import { Loading } from "../ui/Loading";
import { SeqLink } from "../ui/Links";
import "./actions.css";
import { AffectedTable } from "./AffectedTable";
import { cutOff } from "./jobRules";
import { Latest } from "./latest";
import { preview, type Answer, type Asked, type Preview } from "./requests";
import { Sending } from "./sending";

const REST_MS = 400;

interface Props {
  pool: string;
  title: string;
  /** What the button says. */
  verb: string;
  danger?: boolean;
  /** null: something is missing yet. */
  asked: Asked | null;
  /** Why it is too late to ask; null: it is not. */
  over?: string | null;
  onClose: () => void;
  /** What is to be chosen first. */
  children?: ComponentChildren;
  /** Where a reason is of use: it is asked for last, when what it will cause is known. */
  reason?: { value: string; say: (text: string) => void };
}

/** What it will cause, then the button, then what admission answered. */
export function RequestDialog({ pool, title, verb, danger = false, asked, over: overNow = null, onClose, children, reason }: Props) {
  const live = useLive(pool);
  const sending = useMemo(() => new Sending(pool), []);
  const causes = useMemo(() => new Latest<Asked, Preview>((question) => preview(pool, question), REST_MS), []);
  const { reason: _, ...matters }: Record<string, unknown> = asked ?? {}; // the reason changes nothing of what it causes
  const question = asked && JSON.stringify(matters);
  useEffect(() => causes.put(question === null ? null : (JSON.parse(question) as Asked), causes.state.peek().of ? REST_MS : 0), [question]);
  useEffect(() => () => causes.stop(), []);

  const state = sending.state.value;
  const said = causes.state.value;
  const cut = cutOff(live.connection.value, live.told.value.kafka);
  const impossible = (said.refusal !== null && said.refusal.status >= 400 && said.refusal.status < 500) || Boolean(said.answer?.faults.length);
  const over = state.at === "sending" ? null : overNow; // what was sent may be what ended it
  const answered = state.at === "answered";
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{answered || over ? "Close" : "Do nothing"}</Button>
          {!answered && (
            <Button
              primary={!danger}
              danger={danger}
              disabled={asked === null || over !== null || cut !== null || impossible || said.asking || state.at === "sending"}
              onClick={() => asked && void sending.go(asked)}
            >
              {state.at === "sending" ? "Sending…" : state.at === "failed" ? `${verb}: try again` : verb}
            </Button>
          )}
        </>
      }
    >
      {answered ? (
        <Answered pool={pool} answer={state.answer} />
      ) : (
        <>
          {over && (
            <p class="notice" role="alert">
              {over}
            </p>
          )}
          {!over && children}
          {!over && <Causes pool={pool} said={said.answer} refusal={said.refusal} asking={said.asking} nothing={asked === null} />}
          {!over && reason && <ReasonField value={reason.value} onInput={reason.say} />}
          {state.at === "failed" && <Failed refusal={state.refusal} />}
          {cut && (
            <p class="notice" role="alert">
              {cut}
            </p>
          )}
        </>
      )}
    </Dialog>
  );
}

function ReasonField({ value, onInput }: { value: string; onInput: (text: string) => void }) {
  return (
    <label class="field">
      <span class="label">Reason</span>
      <input class="input" value={value} maxLength={1000} onInput={(event) => onInput(event.currentTarget.value)} />
      <span class="hint">May be left out. It stands in the record beside your name, for those whom it concerns.</span>
    </label>
  );
}

function Causes({ pool, said, refusal, asking, nothing }: { pool: string; said: Preview | null; refusal: Refusal | null; asking: boolean; nothing: boolean }) {
  if (nothing) return null;
  if (refusal) return <Failure refusal={refusal} />;
  if (!said) return <Loading what="what it will cause" />;
  return (
    <section class="causes" aria-busy={asking} aria-live="polite">
      <h3>What it will cause</h3>
      {said.sentences.map((sentence, at) => (
        <p key={at}>{sentence}</p>
      ))}
      {said.faults.map((fault, at) => (
        <p key={at} class="fault">
          {fault.text}
        </p>
      ))}
      {said.affected.length > 0 && <AffectedTable pool={pool} rows={said.affected} />}
    </section>
  );
}

function Failed({ refusal }: { refusal: Refusal }) {
  return (
    <div class="answer" data-kind="bad" role="alert">
      <strong>{refusal.title}</strong>
      {refusal.detail && <p>{refusal.detail}</p>}
      {refusal.faults.map((fault, at) => (
        <p key={at}>{fault.text}</p>
      ))}
      {(refusal.status === 0 || refusal.status >= 500) && <p>Whether the request was sent is not known. Trying again is safe: it keeps its id, and happens once.</p>}
    </div>
  );
}

/** What admission said. */
export function Answered({ pool, answer }: { pool: string; answer: Answer }) {
  const record = answer.seq === null ? null : <SeqLink pool={pool} seq={answer.seq} />;
  if (answer.accepted === null) {
    return (
      <div class="answer" data-kind="open" role="status">
        <strong>No answer yet</strong>
        <p>The request is in Kafka, and is decided as soon as admission reads it; closing this does not take it back. What comes of it shows in the pages by itself.</p>
        <p class="soft">
          Its id: <code>{answer.id}</code>
        </p>
      </div>
    );
  }
  if (answer.accepted) {
    return (
      <div class="answer" data-kind="good" role="status">
        <strong>✓ Accepted, as record {record}</strong>
        <p>What follows from it shows in the pages by itself.</p>
      </div>
    );
  }
  return (
    <div class="answer" data-kind="bad" role="alert">
      <strong>✕ Rejected{record && <>, as record {record}</>}</strong>
      <p>{answer.reason}</p>
      <p class="soft">
        Code: <code>{answer.code}</code>
      </p>
    </div>
  );
}
