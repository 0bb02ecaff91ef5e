// What both charts share: Plotly itself, and the page's colours.

/** Plotly, once it is there; rejects where it did not load. Large: the table does not wait for it. */
export const plotly = new Promise((resolve, reject) => {
  const script = document.createElement("script");
  script.addEventListener("load", () => resolve(globalThis.Plotly));
  script.addEventListener("error", () => reject(new Error("the chart's library did not load")));
  script.src = document.body.dataset.plotly;
  document.head.append(script);
});
// The caller that draws shows the error; without this, the browser reports an unhandled rejection.
plotly.catch(() => {});

/** A colour of page.css as it is now, light or dark. */
export const colour = (name) => {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};

/** No toolbar, no zoom, and no TeX in names. */
export const CONFIG = { displayModeBar: false, responsive: true, typesetMath: false, doubleClick: false };

export const layout = (more) => ({
  paper_bgcolor: "rgba(0,0,0,0)",
  plot_bgcolor: "rgba(0,0,0,0)",
  font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("ink") },
  hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") }, namelength: 0 },
  dragmode: false,
  barmode: "overlay",
  ...more,
});
