// The last day, a bar per window; a click chooses the window.

import { CONFIG, colour, layout, plotly } from "./plotly.js";
import { clock, count, plain, span } from "./format.js";
import { counted, kinds, shownKinds } from "./words.js";

const HOURS_APART = 4;

const told = (values) =>
  kinds.length ? kinds.map(({ many }, kind) => `${count(values[kind])} by ${many}`).join(", ") : `${count(values[0])} ${counted}`;

/** Draw the windows into `node`; `chosen` is the start of the one that is shown; `choose(start)` on a click. */
export const drawDay = async (node, windows, chosen, whose, now, choose) => {
  const Plotly = await plotly;
  const middle = windows.map(({ start, end }) => (start + end) / 2);
  const width = windows.map(({ start, end }) => (end - start) * 0.8);
  const traces = shownKinds(whose).map((kind, number) => ({
    type: "bar",
    x: middle,
    y: windows.map(({ values }) => values[kind]),
    width,
    marker: {
      color: colour(`hue-${kind}`),
      opacity: windows.map(({ start }) => (start === chosen ? 1 : 0.45)),
    },
    hovertext: windows.map(({ start, end, values }) => plain(`${span(start, end, now)}: ${told(values)}`)),
    // The text tells of both kinds: once is enough.
    hoverinfo: number === 0 ? "text" : "none",
  }));
  const step = HOURS_APART * 3600;
  const ticks = Array.from({ length: 24 / HOURS_APART }, (_, n) => (Math.floor(now / step) - n) * step);
  await Plotly.react(
    node,
    traces,
    layout({
      barmode: "stack",
      margin: { l: 8, r: 8, t: 8, b: 24 },
      showlegend: false,
      // A window is its whole column, with the gap beside its bar and the room above a low one.
      hovermode: "x",
      xaxis: {
        range: [now - 24 * 3600, Math.max(now, ...windows.map(({ end }) => end))],
        tickvals: ticks,
        ticktext: ticks.map((at) => clock(at, at)),
        fixedrange: true,
        showgrid: false,
        zeroline: false,
        tickfont: { color: colour("muted") },
      },
      yaxis: {
        automargin: true,
        fixedrange: true,
        nticks: 4,
        tickformat: ",d",
        rangemode: "tozero",
        gridcolor: colour("line"),
        zerolinecolor: colour("line"),
        tickfont: { color: colour("muted") },
      },
    }),
    CONFIG,
  );
  node.removeAllListeners("plotly_click");
  node.on("plotly_click", ({ points }) => choose(windows[points[0].pointIndex].start));
};
