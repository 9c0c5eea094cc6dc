// Things side by side: one row per property, marked where they differ.

export interface Compared {
  name: string;
  values: Record<string, string>;
}

export function comparison(columns: readonly Compared[]): { name: string; values: string[]; differs: boolean }[] {
  const names = [...new Set(columns.flatMap((column) => Object.keys(column.values)))];
  return names.map((name) => {
    const values = columns.map((column) => column.values[name] ?? "–");
    return { name, values, differs: new Set(values).size > 1 };
  });
}
