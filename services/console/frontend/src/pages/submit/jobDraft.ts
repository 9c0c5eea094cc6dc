import { signal } from "@preact/signals";

import { loadDraft, dropDraft, saveDraft } from "./draftStorage";
import { EMPTY, generatedName, isGeneratedName, type JobFields } from "./jobFields";
import { yamlToFields } from "./yamlToFields";
import { fieldsToYaml } from "./fieldsToYaml";

interface StoredDraft {
  yaml: string;
  nameSuffix: string;
}

/** The job being edited. The YAML is what is submitted; the form is a view of it if it supports all fields. */
export class JobDraft {
  readonly yaml = signal("");
  readonly fields = signal<JobFields | null>(EMPTY);
  /** Parts of the YAML that the form does not support. */
  readonly unsupported = signal<string[]>([]);
  readonly comments = signal(false);
  private nameSuffix = randomLetters(4);

  constructor(
    private readonly key: string,
    private readonly defaults: Partial<JobFields> = {},
  ) {
    const stored = loadDraft<StoredDraft>(key);
    if (typeof stored?.yaml === "string") {
      this.nameSuffix = String(stored.nameSuffix);
      this.write(stored.yaml);
    } else this.reset();
  }

  private reset(): void {
    this.nameSuffix = randomLetters(4);
    this.unsupported.value = [];
    this.comments.value = false;
    this.fields.value = { ...EMPTY, ...this.defaults };
    this.yaml.value = fieldsToYaml(this.fields.value);
  }

  /** Updates the YAML from the form. A generated name follows the command. */
  set(some: Partial<JobFields>): void {
    const before = this.fields.peek();
    if (!before) return;
    const fields = { ...before, ...some };
    if (some.command !== undefined && isGeneratedName(before, this.nameSuffix)) fields.name = some.command.trim() ? generatedName(some.command, this.nameSuffix) : "";
    this.fields.value = fields;
    this.comments.value = false;
    this.save(fieldsToYaml(fields));
  }

  /** Updates the form from the YAML. */
  write(yaml: string): void {
    const parsed = yamlToFields(yaml);
    this.fields.value = "fields" in parsed ? parsed.fields : null;
    this.unsupported.value = "unsupported" in parsed ? parsed.unsupported : [];
    this.comments.value = "comments" in parsed && parsed.comments;
    this.save(yaml);
  }

  clear(): void {
    dropDraft(this.key);
    this.reset();
  }

  private save(yaml: string): void {
    this.yaml.value = yaml;
    saveDraft(this.key, { yaml, nameSuffix: this.nameSuffix } satisfies StoredDraft);
  }
}

export const jobKey = (pool: string): string => `submit-${pool}`;

/** Stores a job as the draft of the Submit page. */
export const prefillSubmit = (pool: string, yaml: string): void => saveDraft(jobKey(pool), { yaml, nameSuffix: randomLetters(4) } satisfies StoredDraft);

function randomLetters(many: number): string {
  const signs = "abcdefghijkmnpqrstuvwxyz23456789";
  return [...crypto.getRandomValues(new Uint8Array(many))].map((byte) => signs[byte % signs.length]).join("");
}
