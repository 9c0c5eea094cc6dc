import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

import { DebouncedQuery, type ApiError, type PreviewAnswer, type RequestOutcome } from "../api";
import { useLive } from "../live";
import { Button, Dialog, ErrorList, ErrorMessage, Field, Loading, Notice, SeqLink } from "../ui";
import { AffectedJobsTable } from "./AffectedJobsTable";
import { offlineReason } from "./allowedActions";
import { preview, withoutEmpty, type RequestBody } from "./requests";
import { RequestSubmission } from "./requestSubmission";
import "./actions.css";

const DEBOUNCE_MS = 400;

interface Props {
  pool: string;
  title: string;
  /** Label of the submit button. */
  action: string;
  danger?: boolean | undefined;
  /** Empty fields are left out; null: the input is incomplete. */
  request: RequestBody | null;
  /** Why no request is possible any more; null: it is. */
  endedMessage?: string | null;
  onClose: () => void;
  /** Admission has accepted the request. */
  onAccepted?: () => void;
  /** Input fields above the preview. */
  children?: ComponentChildren;
  /** Whether a reason is asked for, below the preview. */
  reason?: boolean | undefined;
}

/** A dialog that previews the effects of a request, sends it, and shows admission's response. */
export function RequestDialog({ pool, title, action, danger = false, request, endedMessage: overNow = null, onClose, onAccepted, children, reason: asksReason = false }: Props) {
  const live = useLive(pool);
  const sending = useMemo(() => new RequestSubmission(pool), []);
  const previewQuery = useMemo(() => new DebouncedQuery<RequestBody, PreviewAnswer>((question) => preview(pool, question), DEBOUNCE_MS), []);
  const [reason, setReason] = useState("");
  const question = request && JSON.stringify(withoutEmpty(request)); // without the reason, which does not change the effects
  useEffect(() => previewQuery.set(question === null ? null : (JSON.parse(question) as RequestBody), previewQuery.state.peek().of ? DEBOUNCE_MS : 0), [question]);
  useEffect(() => () => previewQuery.stop(), []);

  const state = sending.state.value;
  const previewed = previewQuery.state.value;
  const offline = offlineReason(live.connection.value, live.consoleState.value.kafka);
  const impossible = (previewed.error !== null && previewed.error.status >= 400 && previewed.error.status < 500) || Boolean(previewed.answer?.errors.length);
  const endedMessage = state.status === "sending" ? null : overNow; // the request itself may have ended the job
  const answered = state.status === "answered";
  const accepted = state.status === "answered" && state.answer.accepted === true;
  useEffect(() => {
    if (accepted) onAccepted?.();
  }, [accepted]);
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{answered || endedMessage ? "Close" : "Dismiss"}</Button>
          {!answered && (
            <Button
              primary={!danger}
              danger={danger}
              disabled={request === null || endedMessage !== null || offline !== null || impossible || previewed.loading || state.status === "sending"}
              onClick={() => request && void sending.submit(withoutEmpty({ ...request, reason }) as RequestBody)}
            >
              {state.status === "sending" ? "Sending…" : state.status === "failed" ? `${action}: retry` : action}
            </Button>
          )}
        </>
      }
    >
      {answered ? (
        <OutcomeMessage pool={pool} answer={state.answer} />
      ) : (
        <>
          {endedMessage && <Notice>{endedMessage}</Notice>}
          {!endedMessage && children}
          {!endedMessage && <PreviewSection pool={pool} previewed={previewed.answer} error={previewed.error} loading={previewed.loading} incomplete={request === null} />}
          {!endedMessage && asksReason && <ReasonField value={reason} onInput={setReason} />}
          {state.status === "failed" && <SubmissionError error={state.error} />}
          {offline && <Notice>{offline}</Notice>}
        </>
      )}
    </Dialog>
  );
}

export function ReasonField({ value, onInput, more = "" }: { value: string; onInput: (text: string) => void; more?: string }) {
  return (
    <Field label="Reason" hint={`Optional. Recorded in the audit log with your name${more}.`}>
      <input class="input" value={value} maxLength={1000} onInput={(event) => onInput(event.currentTarget.value)} />
    </Field>
  );
}

function PreviewSection({ pool, previewed, error, loading, incomplete }: { pool: string; previewed: PreviewAnswer | null; error: ApiError | null; loading: boolean; incomplete: boolean }) {
  if (incomplete) return null;
  if (error) return <ErrorMessage error={error} />;
  if (!previewed) return <Loading what="the preview" />;
  return (
    <section class="stack well effects" aria-busy={loading} aria-live="polite">
      <h3>Effects</h3>
      {previewed.sentences.map((sentence, at) => (
        <p key={at}>{sentence}</p>
      ))}
      {previewed.errors.map((error, at) => (
        <p key={at} class="fault">
          {error.detail}
        </p>
      ))}
      {previewed.affected.length > 0 && <AffectedJobsTable pool={pool} rows={previewed.affected} />}
    </section>
  );
}

function SubmissionError({ error }: { error: ApiError }) {
  return (
    <div class="stack response" data-tone="bad" role="alert">
      <strong>{error.title}</strong>
      {error.errors.length ? <ErrorList errors={error.errors} /> : error.detail && <p>{error.detail}</p>}
      {(error.status === 0 || error.status >= 500) && <p>It is unknown whether the request was sent. Retrying is safe: the request keeps its id and is processed once.</p>}
    </div>
  );
}

/** Admission's response to a request. */
export function OutcomeMessage({ pool, answer }: { pool: string; answer: RequestOutcome }) {
  const record = answer.seq === null ? null : <SeqLink pool={pool} seq={answer.seq} />;
  if (answer.accepted === null) {
    return (
      <div class="stack response" data-tone="warn" role="status">
        <strong>No response yet</strong>
        <p>The request is in Kafka and is processed as soon as admission reads it. Closing this dialog does not withdraw it. The pages update when it is processed.</p>
        <p class="soft">
          Request id: <code>{answer.id}</code>
        </p>
      </div>
    );
  }
  if (answer.accepted) {
    return (
      <div class="stack response" data-tone="good" role="status">
        <strong>✓ Accepted, as record {record}</strong>
        <p>The pages update automatically.</p>
      </div>
    );
  }
  return (
    <div class="stack response" data-tone="bad" role="alert">
      <strong>✕ Rejected{record && <>, as record {record}</>}</strong>
      <p>{answer.reason}</p>
      <p class="soft">
        Code: <code>{answer.code}</code>
      </p>
    </div>
  );
}
