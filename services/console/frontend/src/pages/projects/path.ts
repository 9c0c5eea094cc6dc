/** The page of projects with one of them open. */
export const projectPath = (pool: string, project: string): string => `/${encodeURIComponent(pool)}/projects?project=${encodeURIComponent(project)}`;
