import "./segmented.css";

/** Switches between views: a row of toggle buttons. */
export function ViewSwitch<T extends string>({ legend, options, value, onChange, wrapping }: { legend: string; options: readonly [T, string][]; value: T; onChange: (value: T) => void; wrapping?: boolean }) {
  return (
    <div class="segmented" data-wrapping={wrapping} role="group" aria-label={legend}>
      {options.map(([key, name]) => (
        <button key={key} type="button" aria-pressed={value === key} onClick={() => onChange(key)}>
          {name}
        </button>
      ))}
    </div>
  );
}
