import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { zoneName, type Between } from "../lib";
import { Button } from "./Button";
import { MomentInput } from "./MomentInput";
import { SegmentedControl } from "./SegmentedControl";
import "./timerange.css";

interface Props<T extends string> {
  presets: readonly [T, string][];
  /** The chosen preset; null: `between` is chosen. */
  value: T | null;
  /** What is shown, to begin a range of one's own with. */
  between: Between;
  onPreset: (preset: T) => void;
  onBetween: (between: Between) => void;
}

const minute = (iso: string, round: (value: number) => number): string => new Date(round(Date.parse(iso) / 60_000) * 60_000).toISOString();

/** The time range of a page: one of the presets, up to now, or from one time to another. */
export function TimeRangePicker<T extends string>({ presets, value, between, onPreset, onBetween }: Props<T>) {
  const own = useSignal<Between | null>(null);
  useEffect(() => void (own.value = value === null ? between : null), [value, value === null && between.from, value === null && between.to]);
  const given = own.value;
  const valid = given !== null && given.from !== "" && given.to !== "" && given.from < given.to;
  return (
    <div class="row timerange">
      <SegmentedControl legend="Time range" options={[...presets, ["custom", "From … to"]] as readonly [string, string][]} value={given ? "custom" : (value ?? "custom")} onChange={(next) => {
        if (next === "custom") own.value = { from: minute(between.from, Math.floor), to: minute(between.to, Math.ceil) };
        else {
          own.value = null;
          onPreset(next as T);
        }
      }} />
      {given && (
        <form class="row timerange-own" onSubmit={(event) => { event.preventDefault(); if (valid) onBetween(given); }}>
          <label><span class="soft">From</span> <MomentInput value={given.from} onChange={(from) => (own.value = { ...given, from })} /></label>
          <label><span class="soft">to</span> <MomentInput value={given.to} onChange={(to) => (own.value = { ...given, to })} /></label>
          <span class="soft">{zoneName()}</span>
          <Button submit disabled={!valid}>Show</Button>
          {!valid && <span class="fault" role="status">The end must be after the start.</span>}
        </form>
      )}
    </div>
  );
}
