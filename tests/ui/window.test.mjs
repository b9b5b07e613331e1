// The whole window in a browser, with a made-up app behind it. One build and one browser do for all of it.
//
// `node --test tests/ui/window.test.mjs`. CHROME_PATH names another browser than the one that is found.

// What is measured comes first, while nothing else runs.
import "./pace.mjs";
import "./behaviour.mjs";
import "./journeys.mjs";
import "./pages.mjs";
