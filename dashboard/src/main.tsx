import { render } from "preact";
import "./style/tokens.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/components.css";
import "./style/pages.css";
import { interceptLinks } from "./route/router";
import { Root } from "./root";
import { applyTheme } from "./session/theme";
import { takeKeyFromAddress } from "./session/key";

const key = takeKeyFromAddress();
applyTheme();
interceptLinks();
const root = document.getElementById("root");
if (root) render(<Root initialKey={key} />, root);
