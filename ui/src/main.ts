import "./lib/locale";
import "./styles/tokens.css";
import "./styles/base.css";
import { mount } from "svelte";
import App from "./App.svelte";

// A build for tests and pictures talks to made-up answers. No other build has them in it.
if (import.meta.env.MODE === "fake") await (await import("./api/fake")).install();

const target = document.getElementById("app");
if (target) mount(App, { target });
