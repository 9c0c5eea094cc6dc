import type { ComponentChildren } from "preact";

/** A check box with its label beside it. */
export const CheckBox = ({ checked, onChange, children }: { checked: boolean; onChange: (checked: boolean) => void; children: ComponentChildren }) => (
  <label class="check">
    <input type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} /> {children}
  </label>
);

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

interface DropdownProps<T extends string> extends Pick<preact.JSX.IntrinsicElements["select"], "id" | "disabled" | "aria-label" | "aria-describedby" | "aria-invalid"> {
  value: T;
  options: readonly (T | readonly [T, string])[];
  onChange: (value: T) => void;
}

/** A choice, for a field that has its label. */
export const Dropdown = <T extends string>({ value, options, onChange, ...more }: DropdownProps<T>) => (
  <select {...more} class="input" value={value} onChange={(event) => onChange(event.currentTarget.value as T)}>
    <Options of={options} />
  </select>
);

/** A choice whose label is for screen readers only. */
export const Select = <T extends string>({ label, ...choice }: DropdownProps<T> & { label: string }) => (
  <label>
    <span class="visually-hidden">{label}</span>
    <Dropdown {...choice} />
  </label>
);

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

/** An input of a filter, with its label above it. */
export const FilterField = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <label class="stack filter-field">
    <span>{label}</span>
    {children}
  </label>
);

/** A search field that is named by its placeholder. */
export function SearchInput({ label, value, onInput }: { label: string; value: string; onInput: (text: string) => void }) {
  return (
    <label>
      <span class="visually-hidden">{label}</span>
      <input class="input" type="search" placeholder={label} value={value} onInput={(event) => onInput(event.currentTarget.value)} />
    </label>
  );
}
