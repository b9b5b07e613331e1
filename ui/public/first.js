// What the first thing that is seen depends on, which can't wait for the program: which window it is, and how it is to look.
document.documentElement.dataset.window = new URLSearchParams(location.search).get("window") ?? "main";
try {
  document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "system";
} catch {
  // Without it, the window looks like the system.
}
