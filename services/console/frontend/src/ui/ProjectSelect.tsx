/** Filter by project; null: any. */
export function ProjectSelect({ projects, value, onChange }: { projects: Iterable<string>; value: string | null; onChange: (project: string | null) => void }) {
  return (
    <label>
      <span class="visually-hidden">Project</span>
      <select class="input" value={value === null ? "any" : `=${value}`} onChange={(event) => onChange(event.currentTarget.value === "any" ? null : event.currentTarget.value.slice(1))}>
        <option value="any">Any project</option>
        {[...projects].map((name) => (
          <option key={name} value={`=${name}`}>
            {name || "no project"}
          </option>
        ))}
      </select>
    </label>
  );
}
