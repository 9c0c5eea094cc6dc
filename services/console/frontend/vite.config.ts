import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";

import preact from "@preact/preset-vite";
import { defineConfig, type Plugin } from "vite";

const SOURCES = ["index.html", "package-lock.json", "public", "src", "vite.config.ts"];

/** Writes a digest of the sources into the output, so that a test without Node detects an outdated build. */
function sourceDigest(): Plugin {
  return {
    name: "source-digest",
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

/** Writes the licences of the bundled packages into the output. */
function licences(): Plugin {
  return {
    name: "licences",
    generateBundle(_, bundle) {
      const inside = Object.values(bundle).flatMap((chunk) => (chunk.type === "chunk" ? chunk.moduleIds : []));
      const names = new Set(inside.flatMap((id) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1] ?? []));
      const texts = [...names].sort().map((name) => {
        const file = readdirSync(`node_modules/${name}`).find((each) => /^licen[cs]e/i.test(each));
        const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
        return `${name} ${version} (${license})\n\n${file ? readFileSync(`node_modules/${name}/${file}`, "utf8").trim() : ""}\n`;
      });
      this.emitFile({ type: "asset", fileName: "licences.txt", source: texts.join(`\n${"-".repeat(80)}\n\n`) });
    },
  };
}

// The output is part of the Python package, so that installing Bailiff does not need Node.
export default defineConfig({
  plugins: [preact(), sourceDigest(), licences()],
  resolve: { alias: { "@xterm/headless": "@xterm/headless/lib-headless/xterm-headless.mjs" } }, // its package.json names a file that it lacks
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
