import "./barkey.css";

/** What the parts of a bar mean. */
export function BarKey() {
  return (
    <ul class="bar-key">
      <li>
        <span class="key-own" aria-hidden="true" /> within quota
      </li>
      <li>
        <span class="key-over" aria-hidden="true" /> borrowed
      </li>
      <li>
        <span class="key-fair" aria-hidden="true" /> fair share
      </li>
    </ul>
  );
}
