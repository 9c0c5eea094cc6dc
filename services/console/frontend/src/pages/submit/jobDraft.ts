import { signal } from "@preact/signals";

import { dropDraft, loadDraft, randomLetters, saveDraft, type StoredJob } from "../../shared/draftStorage";
import { EMPTY, FIELDS, generatedName, isGeneratedName, NEW_JOB, type JobFields } from "./jobFields";
import { fieldsOf, withFields } from "./jobYaml";

/** The job being edited. The YAML is what is submitted; the form is a view of it, with what is not complete yet. */
export class JobDraft {
  readonly yaml = signal("");
  readonly fields = signal<JobFields | null>(EMPTY);
  /** Fields that the form does not have. */
  readonly others = signal<string[]>([]);
  /** Why there is no form. */
  readonly fault = signal("");
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
    [this.others.value, this.fault.value] = [[], ""];
    this.fields.value = { ...NEW_JOB, ...this.defaults };
    this.yaml.value = withFields("", this.fields.value, Object.keys(FIELDS) as (keyof typeof FIELDS)[]);
  }

  /** Updates the YAML from the form. A generated name follows the command. */
  set(some: Partial<JobFields>): void {
    const before = this.fields.peek();
    if (!before) return;
    const changed: Partial<JobFields> = { ...some };
    if (some.command !== undefined && isGeneratedName(before, this.nameSuffix)) changed.name = some.command.trim() ? generatedName(some.command, this.nameSuffix) : "";
    this.fields.value = { ...before, ...changed };
    this.save(withFields(this.yaml.peek(), this.fields.value, Object.keys(changed).map((name) => (name === "argv" ? "command" : name)) as (keyof typeof FIELDS)[]));
  }

  /** Updates the form from the YAML. */
  write(yaml: string): void {
    const found = fieldsOf(yaml);
    [this.fields.value, this.others.value, this.fault.value] = "fields" in found ? [found.fields, found.others, ""] : [null, [], found.fault];
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
