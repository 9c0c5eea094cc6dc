import type { ComponentChildren } from "preact";

/** What a person must know at once, such as an outage. */
export const Notice = ({ children }: { children: ComponentChildren }) => (
  <p class="notice" role="alert">
    {children}
  </p>
);
