import { signal } from "@preact/signals";

import { dropDraft, loadDraft, randomLetters, saveDraft, type StoredJob } from "../../shared/draftStorage";
import { fieldsToYaml } from "./fieldsToYaml";
import { EMPTY, generatedName, isGeneratedName, NEW_JOB, type JobFields } from "./jobFields";
import { yamlToFields } from "./yamlToFields";

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
    const stored = loadDraft<StoredJob>(key);
    if (typeof stored?.yaml === "string") {
      this.nameSuffix = String(stored.nameSuffix);
      this.write(stored.yaml);
    } else this.reset();
  }

  private reset(): void {
    this.nameSuffix = randomLetters(4);
    this.unsupported.value = [];
    this.comments.value = false;
    this.fields.value = { ...NEW_JOB, ...this.defaults };
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
    saveDraft(this.key, { yaml, nameSuffix: this.nameSuffix } satisfies StoredJob);
  }
}
