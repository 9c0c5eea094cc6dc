/** URL of the page of one project. */
export const projectPath = (pool: string, project: string): string => `/${encodeURIComponent(pool)}/projects?project=${encodeURIComponent(project)}`;
