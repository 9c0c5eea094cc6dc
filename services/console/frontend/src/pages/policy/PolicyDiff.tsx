import { useMemo } from "preact/hooks";

import { count } from "../../lib";
import { collapseUnchanged, diff } from "./lineDiff";

const SIGNS = { same: " ", removed: "−", added: "+" } as const;
const WORDS = { same: "", removed: "removed: ", added: "added: " } as const;

/** The differences between two policies, line by line. */
export function PolicyDiff({ before, after }: { before: string; after: string }) {
  const whole = useMemo(() => diff(before, after), [before, after]);
  const changes = whole?.filter((line) => line.is !== "same").length ?? 0;
  return (
    <details class="card diff">
      <summary>
        <strong>Line diff</strong> <span class="soft">{whole ? count(changes, "line") : "almost all lines"} changed</span>
      </summary>
      {whole ? (
        <div class="lines mono">
          {collapseUnchanged(whole).map((line, at) =>
            line.is === "skipped" ? (
              <div key={at} class="line" data-is="skipped">
                {count(line.lines, "unchanged line")}
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
        <p class="soft">The policies differ too much for a line diff.</p>
      )}
    </details>
  );
}
