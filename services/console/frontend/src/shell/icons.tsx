// Inline SVG icons, without fonts or requests. Each decorates a text beside it.
const icon = (path: string) => () => (
  <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
    <path d={path} />
  </svg>
);

export const PoolIcon = icon("M4 5h7v6H4zM13 5h7v6h-7zM4 13h7v6H4zM13 13h7v6h-7z");
export const QueueIcon = icon("M4 6h16M4 12h12M4 18h8");
export const ProjectsIcon = icon("M12 4v5M12 9H6v5M12 9h6v5M4 14h4v5H4zM16 14h4v5h-4z");
export const AccountingIcon = icon("M4 20h16M6 20v-6M11 20V6M16 20v-9");
export const RecordIcon = icon("M9 8h6M9 12h6M9 16h3M6 3h9l4 4v14H6z");
export const WhatIfIcon = icon("M6 4v16M6 8h6a4 4 0 0 1 4 4v0a4 4 0 0 0 4 4M17 13l3 3-3 3");
export const SubmitIcon = icon("M12 5v14M5 12h14");
export const OverviewIcon = icon("M4 19V11M10 19V5M16 19v-6M21 19H3");
export const TimelineIcon = icon("M3 5h9v4H3zM8 10h8v4H8zM13 15h8v4h-8z");
export const JobsIcon = icon("M4 5h16v4H4zM4 10h16v4H4zM4 15h16v4H4z");
export const PolicyIcon = icon("M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6z");
