// The ten busiest users as bars. Their names are hostile: none reaches Plotly but through plain().

import { CONFIG, colour, layout, plotly } from "./plotly.js";
import { count, cut, plain, visible } from "./format.js";

const FEWEST_ROWS = 5;

// The editors of one kind, each at the height of its rank among all.
const trace = (ranked, marker) => ({
  type: "bar",
  orientation: "h",
  x: ranked.map(({ edits }) => edits),
  y: ranked.map(({ rank }) => rank),
  width: 0.72,
  text: ranked.map(({ edits }) => count(edits)),
  textposition: "outside",
  cliponaxis: false,
  hovertext: ranked.map(({ user, edits }) => `${plain(cut(visible(user), 40))}: ${count(edits)} edits`),
  hoverinfo: "text",
  marker,
});

// Bots are hatched, so that the kinds are told apart without colours.
const hatched = () => ({
  color: colour("bots"),
  pattern: { shape: "/", fillmode: "overlay", fgcolor: colour("card"), fgopacity: 0.45, size: 6, solidity: 0.3 },
});

/** Draw the editors, the busiest on top, into `node`. */
export const drawBars = async (node, editors) => {
  const Plotly = await plotly;
  const ranked = editors.map((editor, rank) => ({ ...editor, rank }));
  const most = Math.max(1, ...editors.map((editor) => editor.edits));
  const room = node.clientWidth < 480 ? 12 : 22;
  const rows = Math.max(editors.length, FEWEST_ROWS);
  await Plotly.react(
    node,
    [
      trace(ranked.filter(({ bot }) => !bot), { color: colour("people") }),
      trace(ranked.filter(({ bot }) => bot), hatched()),
    ],
    layout({
      margin: { l: 8, r: 16, t: 4, b: 28 },
      showlegend: false,
      yaxis: {
        range: [rows - 0.5, -0.5],
        tickvals: editors.map((_, rank) => rank),
        ticktext: editors.map((editor) => `${plain(cut(visible(editor.user), room))} `),
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
