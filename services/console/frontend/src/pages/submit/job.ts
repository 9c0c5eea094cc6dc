import { signal } from "@preact/signals";

import { draft, dropDraft, keepDraft } from "./drafts";
import { EMPTY, madeName, wasMade, type JobFields } from "./fields";
import { fromYaml } from "./fromYaml";
import { writeYaml } from "./writeYaml";

interface Kept {
  yaml: string;
  suffix: string;
}

/** The job that is being written: its YAML is what is sent; the form is a view of it, where it holds all of it. */
export class JobDraft {
  readonly yaml = signal("");
  readonly fields = signal<JobFields | null>(EMPTY);
  /** What the YAML has that the form does not. */
  readonly more = signal<string[]>([]);
  readonly comments = signal(false);
  private suffix = letters(4);

  constructor(
    private readonly key: string,
    private readonly first: Partial<JobFields> = {},
  ) {
    const kept = draft<Kept>(key);
    if (typeof kept?.yaml === "string") {
      this.suffix = String(kept.suffix);
      this.write(kept.yaml);
    } else this.begin();
  }

  private begin(): void {
    this.suffix = letters(4);
    this.more.value = [];
    this.comments.value = false;
    this.fields.value = { ...EMPTY, ...this.first };
    this.yaml.value = writeYaml(this.fields.value);
  }

  /** The form changed: it writes the YAML. A name that was made follows the command. */
  set(some: Partial<JobFields>): void {
    const before = this.fields.peek();
    if (!before) return;
    const fields = { ...before, ...some };
    if (some.command !== undefined && wasMade(before, this.suffix)) fields.name = some.command.trim() ? madeName(some.command, this.suffix) : "";
    this.fields.value = fields;
    this.comments.value = false;
    this.keep(writeYaml(fields));
  }

  /** The YAML changed: the form shows it, or what in it is more than it can. */
  write(yaml: string): void {
    const held = fromYaml(yaml);
    this.fields.value = "fields" in held ? held.fields : null;
    this.more.value = "more" in held ? held.more : [];
    this.comments.value = "comments" in held && held.comments;
    this.keep(yaml);
  }

  clear(): void {
    dropDraft(this.key);
    this.begin();
  }

  private keep(yaml: string): void {
    this.yaml.value = yaml;
    keepDraft(this.key, { yaml, suffix: this.suffix } satisfies Kept);
  }
}

export const jobKey = (pool: string): string => `submit-${pool}`;

/** The next visit to Submit begins with this. */
export const handOver = (pool: string, yaml: string): void => keepDraft(jobKey(pool), { yaml, suffix: letters(4) } satisfies Kept);

function letters(many: number): string {
  const signs = "abcdefghijkmnpqrstuvwxyz23456789";
  return [...crypto.getRandomValues(new Uint8Array(many))].map((byte) => signs[byte % signs.length]).join("");
}
