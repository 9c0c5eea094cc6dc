import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

import type { ErrorDetail } from "../../api";
import { Button, Dropdown, SignButton } from "../../ui";
import type { JobFields, Pair, PairField, TextField } from "./jobFields";

/** Props of every part of the form: the fields, their errors, and a setter. */
export interface FormProps {
  fields: JobFields;
  errors: ReadonlyMap<string, ErrorDetail[]>;
  set: (some: Partial<JobFields>) => void;
}

interface Shown {
  label: string;
  hint?: ComponentChildren;
  wide?: boolean;
}

/** A form row: label, input, errors or a hint. */
export function FieldRow({ label, hint, wide, errors, children }: Shown & { errors: ErrorDetail[] | undefined; children: (ids: { id: string; "aria-describedby": string; "aria-invalid": boolean }) => ComponentChildren }) {
  const id = useId();
  const about = `${id}-about`;
  return (
    <div class="stack field" data-wide={wide}>
      <label for={id}>{label}</label>
      {children({ id, "aria-describedby": about, "aria-invalid": Boolean(errors) })}
      <div id={about}>
        {errors?.map((error) => (
          <p key={error.detail} class="fault">
            {error.detail}
          </p>
        ))}
        {!errors && hint && <p class="hint">{hint}</p>}
      </div>
    </div>
  );
}

export function TextInput({ of, name, placeholder, numeric, ...shown }: Shown & { of: FormProps; name: TextField; placeholder?: string; numeric?: boolean }) {
  return (
    <FieldRow {...shown} errors={of.errors.get(name)}>
      {(ids) => (
        <input
          {...ids}
          class="input"
          value={of.fields[name]}
          placeholder={placeholder}
          inputMode={numeric ? "decimal" : undefined}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => of.set({ [name]: event.currentTarget.value })}
        />
      )}
    </FieldRow>
  );
}

/** A select field. options: value and label; an unknown value is shown as it is. */
export function SelectInput({ of, name, options, ...shown }: Shown & { of: FormProps; name: TextField; options: [string, string][] }) {
  const value = of.fields[name];
  const all = options.some(([each]) => each === value) ? options : [...options, [value, value] as [string, string]];
  return (
    <FieldRow {...shown} errors={of.errors.get(name)}>
      {(ids) => <Dropdown {...ids} value={value} options={all} onChange={(next) => of.set({ [name]: next })} />}
    </FieldRow>
  );
}

/** Name-value pairs. */
export function PairsInput({ of, name, label, hint, names, values }: { of: FormProps; name: PairField; label: string; hint: string; names: string; values: string }) {
  const rows = of.fields[name];
  const put = (next: Pair[]) => of.set({ [name]: next });
  const errors = of.errors.get(name);
  return (
    <fieldset class="stack pairs" data-wide>
      <legend>{label}</legend>
      {rows.map((row, at) => (
        <div key={at} class="pair-row">
          <input class="input mono" aria-label={`${label}: ${names} ${at + 1}`} placeholder={names} value={row.name} spellcheck={false} onInput={(event) => put(rows.with(at, { ...row, name: event.currentTarget.value }))} />
          <input class="input mono" aria-label={`${label}: ${values} ${at + 1}`} placeholder={values} value={row.value} spellcheck={false} onInput={(event) => put(rows.with(at, { ...row, value: event.currentTarget.value }))} />
          <SignButton quiet sign="✕" label={`Remove ${row.name || `row ${at + 1}`}`} onClick={() => put(rows.toSpliced(at, 1))} />
        </div>
      ))}
      {errors?.map((error) => (
        <p key={error.detail} class="fault">
          {error.detail}
        </p>
      ))}
      <div class="row pair-foot">
        <Button onClick={() => put([...rows, { name: "", value: "" }])}>Add</Button>
        <span class="hint">{hint}</span>
      </div>
    </fieldset>
  );
}

/** A collapsible section, with the number of fields set and an error mark. */
export function FoldedFields({ of, title, what, names, children }: { of: FormProps; title: string; what: string; names: string[]; children: ComponentChildren }) {
  const many = names.filter((name) => isSet(of.fields, name)).length;
  const wrong = names.some((name) => of.errors.has(name));
  return (
    <details class="fold" open={wrong || undefined}>
      <summary>
        <strong>{title}</strong> <span class="soft">{what}</span>
        <span class="spring" />
        {wrong ? <span class="fault">! error</span> : many > 0 && <span class="soft">{many} set</span>}
      </summary>
      <div class="grid">{children}</div>
    </details>
  );
}

function isSet(fields: JobFields, name: string): boolean {
  const value = fields[name as keyof JobFields];
  if (Array.isArray(value)) return value.some((pair) => pair.name !== "");
  return typeof value === "object" ? Object.values(value).some(Boolean) : Boolean(value);
}
