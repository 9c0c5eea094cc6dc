import type { CitedSentence, ExplainedSection } from "../api";
import { sanitizeLine, timeZone } from "../lib";
import { SeqLink } from "../ui";

/** The sections of an explanation; each sentence links to its records. */
export function ExplanationSections({ pool, sections }: { pool: string; sections: ExplainedSection[] }) {
  return (
    <div class="stack sections">
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

export function SentenceList({ pool, sentences }: { pool: string; sentences: CitedSentence[] }) {
  return (
    <ul class="stack sentences">
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
