// The layers of the sources, and no circles. Everything else is the compiler's.
import parser from "@typescript-eslint/parser";
import imports, { createNodeResolver } from "eslint-plugin-import-x";
import { readdirSync } from "node:fs";

/** A folder imports only from folders before it. */
const LAYERS = ["lib", "verify", "receipt", "api", "ui", "live", "shared", "actions", "pages", "shell"];
const layers = LAYERS.slice(0, -1).map((layer, at) => ({ target: `src/${layer}`, from: LAYERS.slice(at + 1).map((above) => `src/${above}`) }));
/** A page imports nothing of another page: what several pages show is in `shared`. */
const pages = readdirSync("src/pages").map((page) => ({ target: `src/pages/${page}`, from: "src/pages", except: [`./${page}`] }));

export default [
  { ignores: ["generated"] },
  {
    files: ["src/**/*.{ts,tsx}"],
    languageOptions: { parser, parserOptions: { ecmaFeatures: { jsx: true } } },
    plugins: { "import-x": imports },
    settings: {
      "import-x/parsers": { "@typescript-eslint/parser": [".ts", ".tsx"] },
      "import-x/extensions": [".ts", ".tsx"],
      "import-x/resolver-next": [createNodeResolver({ extensions: [".ts", ".tsx", ".d.ts", ".js"] })],
    },
    rules: {
      "import-x/no-cycle": "error",
      "import-x/no-restricted-paths": ["error", { zones: [...layers, ...pages] }],
      "import-x/no-unresolved": ["error", { ignore: ["^[^.]"] }],
    },
  },
];
