import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

// The output ships inside the Python package: nobody who installs Bailiff needs Node.
export default defineConfig({
  plugins: [preact()],
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
