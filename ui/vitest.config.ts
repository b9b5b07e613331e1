import { svelte } from "@sveltejs/vite-plugin-svelte";
import { svelteTesting } from "@testing-library/svelte/vite";
import { defineConfig } from "vitest/config";

// The parts of the window without a browser: `vitest run --config ui/vitest.config.ts`.
export default defineConfig({
  root: import.meta.dirname,
  cacheDir: new URL("../node_modules/.vite", import.meta.url).pathname,
  plugins: [svelte(), svelteTesting()],
  // There is no canvas to draw on.
  resolve: { alias: [{ find: /^uplot$/, replacement: new URL("../tests/ui/plot.ts", import.meta.url).pathname }] },
  test: {
    dir: new URL("../tests/ui", import.meta.url).pathname,
    include: ["**/*.test.ts"],
    environment: "happy-dom",
    setupFiles: [new URL("../tests/ui/setup.ts", import.meta.url).pathname],
    testTimeout: 60_000,
    globals: false,
  },
});
