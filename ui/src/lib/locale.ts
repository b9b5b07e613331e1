// A system with the locale `C` gives a language that `Intl` refuses, and a window that stays blank. This comes first.
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
  Object.defineProperty(navigator, "languages", { value: ["en-US"], configurable: true });
}

export {};
