import "./segmented.css";

/** A segmented control: a row of radio buttons. */
export function SegmentedControl<T extends string>({ legend, options, value, onChange }: { legend: string; options: readonly [T, string][]; value: T; onChange: (value: T) => void }) {
  return (
    <fieldset class="segmented">
      <legend class="visually-hidden">{legend}</legend>
      {options.map(([key, name]) => (
        <label key={key}>
          <input type="radio" name={legend} value={key} checked={value === key} onChange={() => onChange(key)} />
          <span>{name}</span>
        </label>
      ))}
    </fieldset>
  );
}
