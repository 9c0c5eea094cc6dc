// Counts and GPU time, for the pages and for receipts.

export const count = (many: number, one: string, more = `${one}s`): string => `${many.toLocaleString("en")} ${many === 1 ? one : more}`;

/** GPU time in a readable unit: `3.1 GPU-min`. */
export function gpuTime(gpuMs: number): string {
  for (const [size, unit] of [[3_600_000, "GPU-h"], [60_000, "GPU-min"]] as const) {
    if (gpuMs >= size) return `${(Math.round((gpuMs * 10) / size) / 10).toFixed(1)} ${unit}`;
  }
  return gpuMs > 0 && gpuMs < 500 ? "< 1 GPU-s" : `${Math.round(gpuMs / 1000)} GPU-s`;
}
