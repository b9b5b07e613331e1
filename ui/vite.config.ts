import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig(({ mode }) => ({
  plugins: [
    svelte(),
    // A build for tests and pictures talks to made-up answers. No other build has them in it.
    mode === "fake" && { name: "fake", transformIndexHtml: { order: "pre" as const, handler: (html: string) => html.replace("/src/main.ts", "../tests/ui/fake/main.ts") } },
  ],
  build: { outDir: "../dist", emptyOutDir: true, target: ["safari16", "chrome110"] },
}));
