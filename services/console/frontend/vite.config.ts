import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";

import preact from "@preact/preset-vite";
import { defineConfig, type Plugin } from "vite";

const SOURCES = ["index.html", "package-lock.json", "public", "src", "vite.config.ts"];

/** What the output was built from, so that a test without Node sees an output that is older than its sources. */
function builtFrom(): Plugin {
  return {
    name: "built-from",
    generateBundle() {
      const files = SOURCES.flatMap((name) =>
        name.includes(".") ? [name] : readdirSync(name, { recursive: true, withFileTypes: true }).filter((it) => it.isFile()).map((it) => `${it.parentPath}/${it.name}`),
      ).sort();
      const sum = createHash("sha256");
      for (const file of files) sum.update(`${file}\n${createHash("sha256").update(readFileSync(file)).digest("hex")}\n`);
      this.emitFile({ type: "asset", fileName: "built-from.txt", source: `${sum.digest("hex")}\n` });
    },
  };
}

// The output ships inside the Python package: nobody who installs Bailiff needs Node.
export default defineConfig({
  plugins: [preact(), builtFrom()],
  build: {
    outDir: "../bailiff_console/web",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8640", "/auth": "http://127.0.0.1:8640" } },
});
