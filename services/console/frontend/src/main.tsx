import { render } from "preact";

import { applyTheme, startClock } from "./lib";
import { App } from "./shell/App";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/ui.css";

applyTheme();
startClock();
render(<App />, document.getElementById("root")!);
