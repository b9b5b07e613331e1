// How long a test waits for what has to come, in milliseconds: also on a slow machine, or one that compiles meanwhile.

import { configure } from "@testing-library/svelte";

configure({ asyncUtilTimeout: 20_000 });
