import { Select } from "./Inputs";

/** Filter by project; null: any. */
export function ProjectSelect({ projects, value, onChange }: { projects: Iterable<string>; value: string | null; onChange: (project: string | null) => void }) {
  const options = [...projects].map((name): [string, string] => [`=${name}`, name || "no project"]);
  return <Select label="Project" value={value === null ? "any" : `=${value}`} options={[["any", "Any project"], ...options]} onChange={(next) => onChange(next === "any" ? null : next.slice(1))} />;
}
