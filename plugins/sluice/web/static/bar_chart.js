// The ten top groups as bars. Their names are hostile: no text reaches Plotly but through plain().

import { CONFIG, colour, layout, plotly } from "./plotly.js";
import { count, cut, plain, visible } from "./format.js";
import { counted } from "./words.js";

const FEWEST_ROWS = 5;

// The groups of one kind, each at the height of its rank among all.
const trace = (ranked, marker) => ({
  type: "bar",
  orientation: "h",
  x: ranked.map(({ value }) => value),
  y: ranked.map(({ rank }) => rank),
  width: 0.72,
  text: ranked.map(({ value }) => count(value)),
  textposition: "outside",
  cliponaxis: false,
  hovertext: ranked.map(({ name, value }) => plain(`${cut(visible(name), 40)}: ${count(value)} ${counted}`)),
  hoverinfo: "text",
  marker,
});

// One kind is hatched, so that the two are told apart without colours.
const hatched = () => ({
  color: colour("hue-1"),
  pattern: { shape: "/", fillmode: "overlay", fgcolor: colour("card"), fgopacity: 0.45, size: 6, solidity: 0.3 },
});

/** Draw the groups, the highest value on top, into `node`. */
export const drawBars = async (node, groups) => {
  const Plotly = await plotly;
  const ranked = groups.map((group, rank) => ({ ...group, rank }));
  const most = Math.max(1, ...groups.map(({ value }) => value));
  const room = node.clientWidth < 480 ? 12 : 22;
  const rows = Math.max(groups.length, FEWEST_ROWS);
  await Plotly.react(
    node,
    [
      trace(ranked.filter(({ kind }) => !kind), { color: colour("hue-0") }),
      trace(ranked.filter(({ kind }) => kind), hatched()),
    ],
    layout({
      margin: { l: 8, r: 16, t: 4, b: 28 },
      showlegend: false,
      yaxis: {
        range: [rows - 0.5, -0.5],
        tickvals: groups.map((_, rank) => rank),
        ticktext: groups.map(({ name }) => `${plain(cut(visible(name), room))} `),
        automargin: true,
        fixedrange: true,
        showgrid: false,
        zeroline: false,
      },
      xaxis: {
        range: [0, most * 1.14],
        fixedrange: true,
        nticks: 5,
        tickformat: ",d",
        gridcolor: colour("line"),
        zerolinecolor: colour("line"),
        tickfont: { color: colour("muted") },
      },
    }),
    CONFIG,
  );
};
