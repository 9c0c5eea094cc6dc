/** `ada`; `ada (not verified)` where no signature and no trusted sign-in shows that it is ada. Empty without a name. */
export function userText(name: string | null | undefined, verified: boolean | null | undefined): string {
  return name && verified === false ? `${name} (not verified)` : (name ?? "");
}
