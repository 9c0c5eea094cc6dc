import { useSignal } from "@preact/signals";

import { poolPath } from "../../lib/api";
import { useArchive } from "../../lib/archive";
import { useLoad } from "../../lib/load";
import { sentence, typeWords } from "../../lib/records";
import { isDecision, VERBS } from "../../lib/terms";
import { useTitle } from "../../lib/title";
import { moment } from "../../lib/words";
import { useLive } from "../../live/live";
import { Ago } from "../../ui/Ago";
import { Answer } from "../../ui/Answer";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Empty } from "../../ui/Empty";
import { Failure } from "../../ui/Failure";
import { JobLink, recordPath } from "../../ui/Links";
import { Loading } from "../../ui/Loading";
import { type Explained, Sections, Sentences } from "../../ui/Sections";
import { BeforeAfter } from "./BeforeAfter";
import { Candidates } from "./Candidates";
import { Compared } from "./Compared";
import "./decision.css";
import type { DecisionTold } from "./shapes";
import { jobsOf, storyOf, typeName } from "./story";
import { Verify } from "./Verify";

const GIVEN_UP = "PlanGivenUp"; // a fact by its form: the executor found that a plan is not needed any more
const OUTCOME = "What came of it?"; // of the request: this very decision

export default function DecisionPage({ pool, seq }: { pool: string; seq: string }) {
  const live = useLive(pool);
  const archive = useArchive();
  const number = /^\d{1,15}$/.test(seq) ? Number(seq) : null;
  const ahead = number !== null && live.seq.value >= 0 && number > live.seq.value;
  const told = useLoad<DecisionTold>(number === null || ahead ? null : poolPath(pool, "decisions", number)).value;
  if (number === null) return <Missing pool={pool} title={`“${seq}” is not the number of a record`} />;
  if (ahead) return <Missing pool={pool} title={`There is no record #${number} yet`} text={`The log of ${pool} ends at #${live.seq.value}.`} />;
  if (told.failure) {
    if (told.failure.status === 404) return <Missing pool={pool} seq={number} title={`#${number} is no decision that can be told as a story`} text={told.failure.detail} />;
    return <Failure refusal={told.failure} />;
  }
  if (!told.value) return <Loading what={`decision #${number}`} />;
  if (!isDecision(typeName(told.value.type)) && typeName(told.value.type) !== GIVEN_UP) {
    return <Missing pool={pool} seq={number} title={`#${number} is a fact, not a decision`} text={`${typeWords(typeName(told.value.type))}: it says what happened, and nobody decided it.`} />;
  }
  return <Told pool={pool} told={told.value} archived={archive.state === "there"} />;
}

function Told({ pool, told, archived }: { pool: string; told: DecisionTold; archived: boolean }) {
  const story = storyOf(told);
  const data = told.decision ?? {};
  const verb = told.verb ?? data.verb ?? null;
  const asked = useLoad<Explained>(data.request === undefined ? null : poolPath(pool, "explain", data.request)).value.value;
  const first = asked?.sections.filter((section) => section.question !== OUTCOME) ?? [];
  const asker = data.asker;
  useTitle(`#${told.seq} ${story.title}`);
  return (
    <div class="page decision-page">
      <div class="page-head">
        <span class="seq number">#{told.seq}</span>
        <h1>{story.title}</h1>
        {verb && <Badge tone={story.tone === "plain" ? "plain" : story.tone} title={VERBS[verb] ?? ""}>{verb}</Badge>}
        <span class="spring" />
        <CopyLink />
      </div>
      <p class="soft">
        <Ago at={told.time} />, {moment(told.time)} · {typeWords(typeName(told.type))} · <a href={recordPath(pool, told.seq)}>the raw record</a>
        {data.request !== undefined && <> · answers the request <a href={recordPath(pool, data.request)}>#{data.request}</a></>}
      </p>
      <section class="card">
        <dl class="answers body">
          <Answer name={asker ? "Who asked" : "About"}>
            {story.about ? <strong><JobLink pool={pool} job={story.about} /></strong> : "no job"}{" "}
            {asker && <span class="soft">{asker.class_name} {asker.priority}{asker.project && `, project ${asker.project}`}{data.tasks && `, for its tasks ${data.tasks}`}</span>}
          </Answer>
          <Answer name="Who leaves">
            {story.victims.length ? jobsOf(story.victims).slice(0, 6).map((job, at) => <span key={job}>{at > 0 && ", "}<JobLink pool={pool} job={job} /></span>) : "Nobody."}
            {jobsOf(story.victims).length > 6 && ` and ${jobsOf(story.victims).length - 6} more`}
          </Answer>
          <Answer name="What it costs">{story.cost}</Answer>
          <Answer name="Is that proven?">
            <span class={story.isProven ? "good" : undefined}>{story.isProven && "✓ "}{story.proven}</span>
          </Answer>
        </dl>
      </section>
      {first.length > 0 && (
        <Card title="Who asked, and why it did not fit">
          <Sentences pool={pool} says={first.flatMap((section) => section.says)} />
        </Card>
      )}
      {data.would_need && <Card title="What was missing"><p>{sentence(data.would_need)}</p></Card>}
      <Compared pool={pool} told={told} />
      <BeforeAfter told={told} />
      <Candidates pool={pool} told={told} />
      {told.sections.length > 0 && (
        <Card title="In sentences, each with the records to check it by">
          <Sections pool={pool} sections={told.sections} />
        </Card>
      )}
      <Verify key={told.seq} pool={pool} seq={told.seq} shown={data} archived={archived} />
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
  return <Button onClick={copy}>{copied.value ? "✓ Copied" : "Copy the link"}</Button>;
}

function Missing({ pool, seq, title, text }: { pool: string; seq?: number; title: string; text?: string }) {
  return (
    <Empty title={title}>
      {text && <p>{text}</p>}
      {seq !== undefined ? <a href={recordPath(pool, seq)}>See the record #{seq} itself</a> : <a href={`/${encodeURIComponent(pool)}/record`}>To the record</a>}
    </Empty>
  );
}
