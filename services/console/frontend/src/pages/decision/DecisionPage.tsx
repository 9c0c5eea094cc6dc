import { useSignal } from "@preact/signals";

import { poolPath } from "../../lib/api";
import { useArchive } from "../../lib/useArchive";
import { useFetch } from "../../lib/useFetch";
import { sentence, typeTitle } from "../../lib/recordText";
import { isDecision, ACTION_TEXTS } from "../../lib/decisionText";
import { usePageTitle } from "../../lib/usePageTitle";
import { moment } from "../../lib/format";
import { useLive } from "../../live/livePool";
import { RelativeTime } from "../../ui/RelativeTime";
import { DescriptionItem } from "../../ui/DescriptionItem";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { EmptyState } from "../../ui/EmptyState";
import { ErrorMessage } from "../../ui/ErrorMessage";
import { JobLink, recordPath } from "../../ui/Links";
import { Loading } from "../../ui/Loading";
import { type ExplanationResponse, ExplanationSections, SentenceList } from "../../ui/ExplanationSections";
import { BeforeAfter } from "./BeforeAfter";
import { VictimCandidates } from "./VictimCandidates";
import { CostComparison } from "./CostComparison";
import "./decision.css";
import type { DecisionResponse } from "./types";
import { jobNames, decisionSummary, typeName } from "./decisionSummary";
import { RecordVerification } from "./RecordVerification";

const ABANDONED = "PreemptionAbandoned"; // formally a fact: the executor found that the preemption is no longer needed
const OUTCOME = "What happened next?"; // of the request: this decision

export default function DecisionPage({ pool, seq }: { pool: string; seq: string }) {
  const live = useLive(pool);
  const archive = useArchive();
  const number = /^\d{1,15}$/.test(seq) ? Number(seq) : null;
  const ahead = number !== null && live.seq.value >= 0 && number > live.seq.value;
  const response = useFetch<DecisionResponse>(number === null || ahead ? null : poolPath(pool, "decisions", number)).value;
  if (number === null) return <NoSuchDecision pool={pool} title={`“${seq}” is not a record number`} />;
  if (ahead) return <NoSuchDecision pool={pool} title={`Record #${number} does not exist yet`} text={`The log of ${pool} ends at #${live.seq.value}.`} />;
  if (response.failure) {
    if (response.failure.status === 404) return <NoSuchDecision pool={pool} seq={number} title={`Record #${number} is not available as a decision`} text={response.failure.detail} />;
    return <ErrorMessage error={response.failure} />;
  }
  if (!response.value) return <Loading what={`decision #${number}`} />;
  if (!isDecision(typeName(response.value.type)) && typeName(response.value.type) !== ABANDONED) {
    return <NoSuchDecision pool={pool} seq={number} title={`#${number} is a fact, not a decision`} text={`${typeTitle(typeName(response.value.type))} records an event that occurred; it is not the result of a decision.`} />;
  }
  return <DecisionView pool={pool} response={response.value} archived={archive.state === "there"} />;
}

function DecisionView({ pool, response, archived }: { pool: string; response: DecisionResponse; archived: boolean }) {
  const story = decisionSummary(response);
  const data = response.decision ?? {};
  const action = response.action ?? data.action ?? null;
  const requestExplanation = useFetch<ExplanationResponse>(data.request === undefined ? null : poolPath(pool, "explain", data.request)).value.value;
  const requestSections = requestExplanation?.sections.filter((section) => section.question !== OUTCOME) ?? [];
  const preemptor = data.preemptor;
  usePageTitle(`#${response.seq} ${story.title}`);
  return (
    <div class="page decision-page">
      <div class="page-head">
        <span class="seq number">#{response.seq}</span>
        <h1>{story.title}</h1>
        {action && <Badge tone={story.tone === "plain" ? "plain" : story.tone} title={ACTION_TEXTS[action] ?? ""}>{action}</Badge>}
        <span class="spring" />
        <CopyLink />
      </div>
      <p class="soft">
        <RelativeTime at={response.time} />, {moment(response.time)} · {typeTitle(typeName(response.type))} · <a href={recordPath(pool, response.seq)}>raw record</a>
        {data.request !== undefined && <> · for request <a href={recordPath(pool, data.request)}>#{data.request}</a></>}
      </p>
      <section class="card">
        <dl class="key-facts body">
          <DescriptionItem name={preemptor ? "Preemptor" : "Job"}>
            {story.about ? <strong><JobLink pool={pool} job={story.about} /></strong> : "no job"}{" "}
            {preemptor && <span class="soft">{preemptor.class_name} {preemptor.priority}{preemptor.project && `, project ${preemptor.project}`}{data.tasks && `, tasks ${data.tasks}`}</span>}
          </DescriptionItem>
          <DescriptionItem name="Victims">
            {story.victims.length ? jobNames(story.victims).slice(0, 6).map((job, at) => <span key={job}>{at > 0 && ", "}<JobLink pool={pool} job={job} /></span>) : "None."}
            {jobNames(story.victims).length > 6 && ` and ${jobNames(story.victims).length - 6} more`}
          </DescriptionItem>
          <DescriptionItem name="Cost">{story.cost}</DescriptionItem>
          <DescriptionItem name="Proven optimal?">
            <span class={story.isProven ? "good" : undefined}>{story.isProven && "✓ "}{story.proven}</span>
          </DescriptionItem>
        </dl>
      </section>
      {requestSections.length > 0 && (
        <Card title="Preemptor and request">
          <SentenceList pool={pool} sentences={requestSections.flatMap((section) => section.sentences)} />
        </Card>
      )}
      {data.would_need && <Card title="Resources required"><p>{sentence(data.would_need)}</p></Card>}
      <CostComparison pool={pool} response={response} />
      <BeforeAfter response={response} />
      <VictimCandidates pool={pool} response={response} />
      {response.sections.length > 0 && (
        <Card title="Explanation, with links to the records">
          <ExplanationSections pool={pool} sections={response.sections} />
        </Card>
      )}
      <RecordVerification key={response.seq} pool={pool} seq={response.seq} shown={data} archived={archived} />
    </div>
  );
}

function CopyLink() {
  const copied = useSignal(false);
  const copy = (): void => {
    void navigator.clipboard?.writeText(location.href).then(() => {
      copied.value = true;
      setTimeout(() => (copied.value = false), 2_000);
    });
  };
  return <Button onClick={copy}>{copied.value ? "✓ Copied" : "Copy link"}</Button>;
}

function NoSuchDecision({ pool, seq, title, text }: { pool: string; seq?: number; title: string; text?: string }) {
  return (
    <EmptyState title={title}>
      {text && <p>{text}</p>}
      {seq !== undefined ? <a href={recordPath(pool, seq)}>Show record #{seq}</a> : <a href={`/${encodeURIComponent(pool)}/record`}>Record</a>}
    </EmptyState>
  );
}
