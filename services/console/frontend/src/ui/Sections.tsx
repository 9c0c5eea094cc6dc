import "./sections.css";
import { plainLine } from "../lib/plain";
import { SeqLink } from "./Links";

export interface Told {
  text: string;
  seqs: number[];
}

/** A question, and what there is to say (docs/schemas/explain.json). */
export interface Section {
  question: string;
  says: Told[];
}

/** What `bailiff explain` says. */
export interface Explained {
  about: string;
  pool: string;
  head_seq: number;
  sections: Section[];
}

/** Sentences of `bailiff explain`, each with the records to check it by. */
export function Sections({ pool, sections }: { pool: string; sections: Section[] }) {
  return (
    <div class="sections">
      {sections.map((section) => (
        <section key={section.question}>
          <h3>{section.question}</h3>
          <Sentences pool={pool} says={section.says} />
        </section>
      ))}
    </div>
  );
}

export function Sentences({ pool, says }: { pool: string; says: Told[] }) {
  return (
    <ul class="sentences">
      {says.map((told, at) => (
        <li key={at}>
          <bdi>{plainLine(told.text)}</bdi>
          {told.seqs.length > 0 && (
            <span class="proofs">
              {told.seqs.slice(0, 6).map((seq) => (
                <SeqLink key={seq} pool={pool} seq={seq} />
              ))}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}
