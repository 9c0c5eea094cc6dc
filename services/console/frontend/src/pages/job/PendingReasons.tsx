import type { Explained, ExplainedSection, Fetched, QueuedJob } from "../../api";
import { brief, ruleTitle } from "../../lib";
import { ExplanationSections, SentenceList } from "../../shared/ExplanationSections";
import { Badge, Card, Elapsed, Loading, RelativeTime, SeqLink } from "../../ui";

const WHY_PENDING = "Why is it pending?";
const UNBLOCKERS = "What would unblock it?";

/** Why a job is pending, and what would unblock it. */
export function PendingReasons({ pool, live, explained }: { pool: string; live: QueuedJob; explained: Fetched<Explained> }) {
  const of = (question: string): ExplainedSection | undefined => explained.value?.sections.find((section) => section.question === question);
  const [why, frees] = [of(WHY_PENDING), of(UNBLOCKERS)];
  const place = live.jobs_ahead === null ? "" : live.jobs_ahead === 0 ? "First in the queue" : `${live.jobs_ahead} ${live.jobs_ahead === 1 ? "job" : "jobs"} ahead of it in the queue`;
  return (
    <Card
      title={WHY_PENDING}
      aside={
        <span class="soft">
          {place}
          {live.pending_since && <>{place && ", "}for <Elapsed at={live.pending_since} /></>}
        </span>
      }
    >
      {live.pending_reason && (
        <p class="lead">
          {brief(live.pending_reason)} {live.pending_rule && <Badge title={ruleTitle(live.pending_rule)}>{live.pending_rule}</Badge>} {live.pending_reason_seq !== null && <SeqLink pool={pool} seq={live.pending_reason_seq} />}
          {live.pending_reason_at && <span class="soft"> <RelativeTime at={live.pending_reason_at} /></span>}
        </p>
      )}
      {explained.loading && !explained.value && <Loading what="the reasons" />}
      {explained.failure && !live.pending_reason && <p class="soft">The reasons are unavailable: {explained.failure.message}</p>}
      {why && <SentenceList pool={pool} sentences={why.sentences.filter((sentence) => !live.pending_reason || !sentence.text.includes(live.pending_reason.replace(/\.$/, "")) || sentence.seqs[0] !== live.pending_reason_seq)} />}
      {frees && (
        <>
          <h3 class="gap">{UNBLOCKERS}</h3>
          <SentenceList pool={pool} sentences={frees.sentences} />
        </>
      )}
    </Card>
  );
}

/** The full explanation of the job, collapsed. */
export function FullExplanation({ pool, explained }: { pool: string; explained: Fetched<Explained> }) {
  if (!explained.value?.sections.length) return null;
  return (
    <details class="card fold-card">
      <summary>Full explanation, with links to the records</summary>
      <div class="body">
        <ExplanationSections pool={pool} sections={explained.value.sections} />
      </div>
    </details>
  );
}

