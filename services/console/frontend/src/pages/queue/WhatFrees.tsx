import { poolPath } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { useSignal } from "@preact/signals";
import { SeqLink } from "../../ui/Links";
import { Failure } from "../../ui/Failure";
import { Loading } from "../../ui/Loading";
import { type Explained, Sections } from "../../ui/Sections";
import { inOrder } from "./explained";

/** What `bailiff explain` says of a job, asked for when it is opened. */
export function WhatFrees({ pool, job }: { pool: string; job: string }) {
  const again = useSignal(0);
  const loaded = useLoad<Explained>(poolPath(pool, "explain", job), again.value);
  const { value, failure } = loaded.value;
  if (!value) return failure ? <Failure refusal={failure} again={() => (again.value += 1)} /> : <Loading what="what would free it" />;
  const sections = inOrder(value.sections);
  if (!sections.length) return <p class="soft">The record says nothing more about it. It is decided about again whenever something changes.</p>;
  return (
    <div class="explained">
      <Sections pool={pool} sections={sections} />
      <p class="soft explained-at">
        As of record <SeqLink pool={pool} seq={value.head_seq} />.{" "}
        <button type="button" class="link" onClick={() => (again.value += 1)}>
          Ask again
        </button>
      </p>
    </div>
  );
}
