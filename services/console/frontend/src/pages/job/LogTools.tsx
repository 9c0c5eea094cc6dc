import type { Signal } from "@preact/signals";

import { download } from "../../lib";
import { Button, CheckBox, SearchInput } from "../../ui";
import type { LogLine } from "./logLines";

/** Search, wrap and download of a job's log. lines: those that are kept, for the file. */
export function LogTools({ search, wrap, name, lines }: { search: Signal<string>; wrap: Signal<boolean>; name: string; lines: () => LogLine[] }) {
  return (
    <>
      <SearchInput label="Search the log" value={search.value} onInput={(text) => (search.value = text)} />
      <CheckBox checked={wrap.value} onChange={(on) => (wrap.value = on)}>
        Wrap
      </CheckBox>
      <Button onClick={() => download(`${name}.log`, logText(lines()))}>Download</Button>
    </>
  );
}

/** The lines as a text file, each with its time, and its task where there are several. */
export function logText(lines: LogLine[]): string {
  const several = new Set(lines.map((line) => line.task)).size > 1;
  return lines.map((line) => `${line.at ?? ""} ${several ? `task ${line.task} ` : ""}${line.text}\n`).join("");
}
