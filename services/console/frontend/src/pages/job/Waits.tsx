import { brief } from "../../lib/records";
import { ruleTitle } from "../../lib/terms";
import type { Loaded } from "../../lib/load";
import type { LiveJob } from "../../live/shapes";
import { Badge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { Loading } from "../../ui/Loading";
import { SeqLink } from "../../ui/Links";
import { type Explained, Sections, type Section, Sentences } from "../../ui/Sections";
import { Since } from "../../ui/Ago";

const WHY = "Why does it wait?";
const FREES = "What would free it?";

/** Why a job waits, and what would make room for it. */
export function Waits({ pool, live, explained }: { pool: string; live: LiveJob; explained: Loaded<Explained> }) {
  const of = (question: string): Section | undefined => explained.value?.sections.find((section) => section.question === question);
  const [why, frees] = [of(WHY), of(FREES)];
  const place = live.ahead === null ? "" : live.ahead === 0 ? "First in the queue" : `${live.ahead} ${live.ahead === 1 ? "job" : "jobs"} before it in the queue`;
  return (
    <Card
      title={WHY}
      aside={
        <span class="soft">
          {place}
          {live.waiting_since && <>{place && ", "}for <Since at={live.waiting_since} /></>}
        </span>
      }
    >
      {live.why && (
        <p class="lead">
          {brief(live.why)} {live.why_rule && <Badge title={ruleTitle(live.why_rule)}>{live.why_rule}</Badge>} {live.why_seq !== null && <SeqLink pool={pool} seq={live.why_seq} />}
        </p>
      )}
      {explained.loading && !explained.value && <Loading what="the reasons" />}
      {explained.failure && !live.why && <p class="soft">The reasons cannot be told now: {explained.failure.detail || explained.failure.title}</p>}
      {why && <Sentences pool={pool} says={why.says.filter((told) => !live.why || !told.text.includes(live.why.replace(/\.$/, "")) || told.seqs[0] !== live.why_seq)} />}
      {frees && (
        <>
          <h3 class="gap">{FREES}</h3>
          <Sentences pool={pool} says={frees.says} />
        </>
      )}
    </Card>
  );
}

/** Everything that the log says about the job, in sentences, closed at first. */
export function Story({ pool, explained }: { pool: string; explained: Loaded<Explained> }) {
  if (!explained.value?.sections.length) return null;
  return (
    <details class="card story">
      <summary>The whole story in sentences, each with the records to check it by</summary>
      <div class="body">
        <Sections pool={pool} sections={explained.value.sections} />
      </div>
    </details>
  );
}

