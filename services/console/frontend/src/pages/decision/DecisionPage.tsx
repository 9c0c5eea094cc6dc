import { poolPath, useArchive, useFetch, type DecisionResponse, type Explained } from "../../api";
import { ACTION_TEXTS, isDecision, moment, sentence, typeTitle, usePageTitle } from "../../lib";
import { useLive } from "../../live";
import { ExplanationSections, SentenceList } from "../../shared/ExplanationSections";
import { ReceiptButton } from "../../shared/ReceiptButton";
import { RecordVerification } from "../../shared/RecordVerification";
import { Badge, Card, CopyButton, DescriptionItem, EmptyState, ErrorMessage, JobLink, JobLinks, Loading, pagePath, recordPath, RelativeTime } from "../../ui";
import { BeforeAfter } from "./BeforeAfter";
import { CostComparison } from "./CostComparison";
import { decisionSummary, jobNames, typeName } from "./decisionSummary";
import { VictimCandidates } from "./VictimCandidates";
import "./decision.css";

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
  const { action } = response.view;
  const requestExplanation = useFetch<Explained>(data.request === undefined ? null : poolPath(pool, "explain", data.request)).value.value;
  const requestSections = requestExplanation?.sections.filter((section) => section.question !== OUTCOME) ?? [];
  const preemptor = data.preemptor;
  usePageTitle(`#${response.seq} ${story.title}`);
  return (
    <div class="stack page decision-page">
      <div class="row page-head">
        <span class="seq number">#{response.seq}</span>
        <h1>{story.title}</h1>
        {action && <Badge tone={story.tone === "plain" ? "plain" : story.tone} title={ACTION_TEXTS[action] ?? ""}>{action}</Badge>}
        <span class="spring" />
        {story.victims.length > 0 && typeName(response.type) === "PreemptionDecided" && <ReceiptButton key={response.seq} pool={pool} decision={response.seq} />}
        <CopyButton text={location.href} what="the link" />
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
            {story.victims.length ? <JobLinks pool={pool} jobs={jobNames(story.victims).slice(0, 6)} /> : "None."}
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

function NoSuchDecision({ pool, seq, title, text }: { pool: string; seq?: number; title: string; text?: string }) {
  return (
    <EmptyState title={title}>
      {text && <p>{text}</p>}
      {seq !== undefined ? <a href={recordPath(pool, seq)}>Show record #{seq}</a> : <a href={pagePath(pool, ["record"])}>Record</a>}
    </EmptyState>
  );
}
