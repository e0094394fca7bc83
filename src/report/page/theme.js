// ------------------------ Theme and print

const root = document.documentElement, darkSystem = matchMedia("(prefers-color-scheme: dark)"), paper = matchMedia("print");
const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : darkSystem.matches;
function themeChanged() {
  $("theme").textContent = isDark() ? "Light theme" : "Dark theme";
  palette = null;
  requestDraw();
}
function setUpTheme() {
  const key = "bowtie-profile-theme";
  try { root.dataset.theme = localStorage.getItem(key) ?? ""; } catch { /* a page from a file may have no storage */ }
  $("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem(key, root.dataset.theme); } catch { /* the choice holds until the page is closed */ }
    themeChanged();
  });
  darkSystem.addEventListener("change", themeChanged);
  themeChanged();
}

/** For print, all details are open and the charts are drawn light, at the width of the paper. */
function setPrinting(on) {
  if (root.classList.contains("printing") === on) return;
  root.classList.toggle("printing", on);
  for (const fold of document.querySelectorAll(on ? "details:not([open], .screen-only)" : "details[data-closed]")) {
    fold.open = on;
    fold.toggleAttribute("data-closed", on);
  }
  hideTip();
  palette = null;
  drawCharts();
}
addEventListener("beforeprint", () => setPrinting(true));
addEventListener("afterprint", () => setPrinting(false));
paper.addEventListener("change", () => setPrinting(paper.matches));

