// The window with the made-up app behind it.

import { install } from ".";

await install();
await import("../../../ui/src/main");
