import { useSignal } from "@preact/signals";

import { poolPath, useFetch, type Explained } from "../../api";
import { ExplanationSections } from "../../shared/ExplanationSections";
import { Loaded, SeqLink } from "../../ui";
import { sortSections } from "./sectionOrder";

/** The explanation of a pending job, loaded when it is opened. */
export function JobExplanation({ pool, job }: { pool: string; job: string }) {
  const refreshCount = useSignal(0);
  const loaded = useFetch<Explained>(poolPath(pool, "explain", job), refreshCount.value).value;
  return (
    <Loaded of={loaded} what="the explanation" retry={() => (refreshCount.value += 1)}>
      {({ sections, head_seq: head }) =>
        sortSections(sections).length ? (
          <div class="stack explanation">
            <ExplanationSections pool={pool} sections={sortSections(sections)} />
            <p class="soft explanation-footer">
              As of record <SeqLink pool={pool} seq={head} />.{" "}
              <button type="button" class="link" onClick={() => (refreshCount.value += 1)}>
                Refresh
              </button>
            </p>
          </div>
        ) : (
          <p class="soft">The log has no further information. The job is reconsidered whenever the state changes.</p>
        )
      }
    </Loaded>
  );
}
