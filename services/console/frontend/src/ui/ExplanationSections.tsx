import "./sections.css";
import { sanitizeLine } from "../lib/sanitizeLine";
import { timeZone } from "../lib/timeZone";
import { SeqLink } from "./Links";

export interface ExplanationSentence {
  text: string;
  seqs: number[];
}

/** A question and its answer in sentences (docs/schemas/explain.json). */
export interface Section {
  question: string;
  sentences: ExplanationSentence[];
}

/** Output of `bailiff explain -o json`. */
export interface ExplanationResponse {
  about: string;
  pool: string;
  head_seq: number;
  sections: Section[];
}

/** The sections of an explanation; each sentence links to its records. */
export function ExplanationSections({ pool, sections }: { pool: string; sections: Section[] }) {
  return (
    <div class="sections">
      {timeZone.value === "local" && <p class="soft note">Times in these sentences are in UTC: they are the log’s.</p>}
      {sections.map((section) => (
        <section key={section.question}>
          <h3>{section.question}</h3>
          <SentenceList pool={pool} sentences={section.sentences} />
        </section>
      ))}
    </div>
  );
}

export function SentenceList({ pool, sentences }: { pool: string; sentences: ExplanationSentence[] }) {
  return (
    <ul class="sentences">
      {sentences.map((sentence, at) => (
        <li key={at}>
          <bdi>{sanitizeLine(sentence.text)}</bdi>
          {sentence.seqs.length > 0 && (
            <span class="record-links">
              {sentence.seqs.slice(0, 6).map((seq) => (
                <SeqLink key={seq} pool={pool} seq={seq} />
              ))}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}
