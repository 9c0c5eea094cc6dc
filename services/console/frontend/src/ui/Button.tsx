import type { ComponentChildren } from "preact";

interface Props {
  primary?: boolean;
  danger?: boolean | undefined;
  quiet?: boolean;
  disabled?: boolean;
  title?: string;
  submit?: boolean;
  onClick?: () => void;
  children: ComponentChildren;
}

export function Button({ primary, danger, quiet, disabled, title, submit, onClick, children }: Props) {
  const kind = ["button", primary && "primary", danger && "danger", quiet && "quiet"].filter(Boolean).join(" ");
  return (
    <button class={kind} type={submit ? "submit" : "button"} disabled={disabled} title={title} onClick={onClick}>
      {children}
    </button>
  );
}

/** A button that shows only a sign; label: what it does, for screen readers and as tooltip. */
export function SignButton({ sign, label, ...props }: Omit<Props, "children" | "title"> & { sign: ComponentChildren; label: string }) {
  return (
    <Button {...props} title={label}>
      <span aria-hidden="true">{sign}</span>
      <span class="visually-hidden">{label}</span>
    </Button>
  );
}
