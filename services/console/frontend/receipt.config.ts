import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

import { defineConfig, type Plugin } from "vite";

// The verifier in the page of a receipt: one script and one style, part of the Python package, so that writing a receipt does not need Node.
const OUT = "../../../libs/client/bailiff/audit/receipt";
const FOLDERS = ["src/receipt", "src/verify"];
const FILES = ["package-lock.json", "receipt.config.ts", "src/lib/amounts.ts", "src/lib/eviction-texts.json", "src/lib/evictionTexts.ts", "src/lib/exitText.ts", "src/lib/sanitizeLine.ts", "src/lib/signals.json", "src/styles/base.css", "src/styles/tokens.css"];

/** Writes the licences of the packages in it above the script. */
function licences(): Plugin {
  return {
    name: "licences",
    generateBundle(_, bundle) {
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== "chunk") continue;
        const names = new Set(chunk.moduleIds.flatMap((id) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1] ?? []));
        const texts = [...names].sort().map((name) => `${name}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`);
        chunk.code = `/*! Contains:\n\n${texts.join("\n")}*/\n${chunk.code}`;
      }
    },
  };
}

/** Writes a digest of the sources beside the script, so that a test without Node detects an outdated build. */
function sourceDigest(): Plugin {
  return {
    name: "source-digest",
    closeBundle() {
      const files = [...FOLDERS.flatMap((folder) => readdirSync(folder).map((name) => `${folder}/${name}`)), ...FILES, `${OUT}/rules.json`].sort();
      const sum = createHash("sha256");
      for (const file of files) sum.update(`${file}\n${createHash("sha256").update(readFileSync(file)).digest("hex")}\n`);
      writeFileSync(`${OUT}/built-from.txt`, `${sum.digest("hex")}\n`);
    },
  };
}

export default defineConfig({
  plugins: [licences(), sourceDigest()],
  publicDir: false,
  build: {
    outDir: OUT,
    emptyOutDir: false,
    target: "es2022",
    lib: { entry: "src/receipt/main.ts", formats: ["iife"], name: "receipt", fileName: () => "verifier.js", cssFileName: "verifier" },
  },
});
