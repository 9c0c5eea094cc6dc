import { poolPath } from "../../lib/api";
import { useFetch } from "../../lib/useFetch";
import { useSignal } from "@preact/signals";
import { SeqLink } from "../../ui/Links";
import { ErrorMessage } from "../../ui/ErrorMessage";
import { Loading } from "../../ui/Loading";
import { type ExplanationResponse, ExplanationSections } from "../../ui/ExplanationSections";
import { sortSections } from "./sectionOrder";

/** The explanation of a pending job, loaded when it is opened. */
export function JobExplanation({ pool, job }: { pool: string; job: string }) {
  const refreshCount = useSignal(0);
  const loaded = useFetch<ExplanationResponse>(poolPath(pool, "explain", job), refreshCount.value);
  const { value, failure } = loaded.value;
  if (!value) return failure ? <ErrorMessage error={failure} retry={() => (refreshCount.value += 1)} /> : <Loading what="the explanation" />;
  const sections = sortSections(value.sections);
  if (!sections.length) return <p class="soft">The log has no further information. The job is reconsidered whenever the state changes.</p>;
  return (
    <div class="explanation">
      <ExplanationSections pool={pool} sections={sections} />
      <p class="soft explanation-footer">
        As of record <SeqLink pool={pool} seq={value.head_seq} />.{" "}
        <button type="button" class="link" onClick={() => (refreshCount.value += 1)}>
          Refresh
        </button>
      </p>
    </div>
  );
}
