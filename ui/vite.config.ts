import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [svelte()],
  build: { outDir: "../dist", emptyOutDir: true, target: ["safari16", "chrome110"] },
});
