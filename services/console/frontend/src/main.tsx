import { render } from "preact";

import { App } from "./shell/App";
import { applyTheme } from "./shell/theme";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/ui.css";

applyTheme();
render(<App />, document.getElementById("root")!);
