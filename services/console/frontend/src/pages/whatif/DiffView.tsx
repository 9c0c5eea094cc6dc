import { useMemo } from "preact/hooks";

import { count } from "../../lib/words";
import { diff, shortened } from "./lineDiff";

const SIGNS = { same: " ", gone: "−", new: "+" } as const;
const WORDS = { same: "", gone: "gone: ", new: "new: " } as const;

/** The two texts, line by line. */
export function DiffView({ before, after }: { before: string; after: string }) {
  const whole = useMemo(() => diff(before, after), [before, after]);
  const changes = whole?.filter((line) => line.is !== "same").length ?? 0;
  return (
    <details class="card diff">
      <summary>
        <strong>Line by line</strong> <span class="soft">{whole ? count(changes, "line") : "almost every line"} different</span>
      </summary>
      {whole ? (
        <div class="lines mono" tabIndex={0} role="region" aria-label="The two policies, line by line">
          {shortened(whole).map((line, at) =>
            line.is === "skipped" ? (
              <div key={at} class="line" data-is="skipped">
                {count(line.lines, "line")} alike
              </div>
            ) : (
              <div key={at} class="line" data-is={line.is}>
                <span aria-hidden="true">{SIGNS[line.is]}</span>
                <span class="visually-hidden">{WORDS[line.is]}</span>
                {line.text}
              </div>
            ),
          )}
        </div>
      ) : (
        <p class="soft">The two texts have too little in common to be shown side by side.</p>
      )}
    </details>
  );
}
