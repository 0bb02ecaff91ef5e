// Airflow's own choice of light or dark, which it keeps where a page of the same origin finds it; without one,
// the system's. Runs before the page is painted, so that it does not flash.
const applyTheme = () => {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
};
applyTheme();
// Airflow's switch, in the frame around this page or in another tab.
addEventListener("storage", (event) => {
  if (event.key === null || event.key === "theme") applyTheme();
});
