import type { ComponentChildren } from "preact";

type Choice = string | readonly [string, string];

/** The options of a select: values, or pairs of value and text. */
export function Options({ of }: { of: readonly Choice[] }) {
  const pairs = of.map((each) => (typeof each === "string" ? ([each, each] as const) : each));
  return pairs.map(([key, text]) => (
    <option key={key} value={key}>
      {text}
    </option>
  ));
}

/** A choice whose label is for screen readers only. */
export function Select<T extends string>({ label, value, options, onChange }: { label: string; value: T; options: readonly (T | readonly [T, string])[]; onChange: (value: T) => void }) {
  return (
    <label>
      <span class="visually-hidden">{label}</span>
      <select class="input" value={value} onChange={(event) => onChange(event.currentTarget.value as T)}>
        <Options of={options} />
      </select>
    </label>
  );
}

/** An input with its label above it, and below it what is wrong, else a hint. */
export function Field({ label, hint, fault, children }: { label: string; hint?: ComponentChildren; fault?: string | null; children: ComponentChildren }) {
  return (
    <label class="stack field">
      <span class="label">{label}</span>
      {children}
      {fault ? <span class="fault">{fault}</span> : hint && <span class="hint">{hint}</span>}
    </label>
  );
}

/** A search field that is named by its placeholder. */
export function SearchInput({ label, value, onInput }: { label: string; value: string; onInput: (text: string) => void }) {
  return (
    <label>
      <span class="visually-hidden">{label}</span>
      <input class="input" type="search" placeholder={label} value={value} onInput={(event) => onInput(event.currentTarget.value)} />
    </label>
  );
}
