// Charts of a query's last hours, one point per minute. Only numbers of the server's data reach Plotly;
// every text is the page's own.

import { CONFIG, colour, layout, plotly } from "./plotly.js";
import { age, bytes, clock, count, duration, rate } from "./format.js";

const TICK_SECONDS = 3600;
// Spark's names of a batch's steps, as they are stacked; what else there is, and what is left, is "other".
const PHASES = ["addBatch", "queryPlanning", "walCommit", "commitOffsets", "latestOffset", "getBatch"];

const phaseOf = (name) => (slot) => {
  if (name !== "other") return slot.phases[name] ?? 0;
  return Math.max(slot.seconds - PHASES.reduce((sum, phase) => sum + (slot.phases[phase] ?? 0), 0), 0);
};

const line = (name, of, hue, dash = "solid") => ({ name, of, hue, dash });
const bar = (name, of, hue) => ({ name, of, hue, type: "bar" });

// `series`: lines or bars; a chart without values is left out.
const CHARTS = [
  {
    id: "rows",
    title: "Rows per second",
    format: rate,
    series: [
      line("input", (slot) => slot.input_rate, 0),
      line("processed", (slot) => slot.processed_rate, 1, "dot"),
    ],
  },
  {
    id: "duration",
    title: "Longest batch",
    format: duration,
    isTime: true,
    series: [...PHASES, "other"].map((name, number) => bar(name, phaseOf(name), number)),
  },
  {
    id: "state",
    title: "State, rows",
    format: count,
    series: [line("rows", (slot) => slot.state?.rows ?? null, 0)],
  },
  {
    id: "memory",
    title: "State, memory",
    format: bytes,
    series: [line("memory", (slot) => slot.state?.memory_bytes ?? null, 0)],
  },
  {
    id: "watermark",
    title: "Watermark lag",
    format: age,
    isTime: true,
    series: [line("behind", (slot) => slot.watermark_lag, 0)],
  },
  {
    id: "late",
    title: "Late and early rows, per minute",
    format: count,
    series: [
      bar("late", (slot) => (slot.state ? slot.late : null), 1),
      bar("early", (slot) => (slot.state ? slot.early : null), 0),
    ],
  },
  {
    id: "behind",
    title: "Offset lag",
    format: rate,
    series: [
      line("maximum", (slot) => slot.behind?.most ?? null, 0),
      line("average", (slot) => slot.behind?.mean ?? null, 1, "dot"),
    ],
  },
];

// Where no batch ended in a slot there is nothing to draw, and no line across.
const gapless = (slots, since, step, now) => {
  const known = new Map(slots.map((slot) => [slot.at, slot]));
  const first = Math.ceil(since / step) * step;
  const length = Math.max(Math.floor((now - first) / step) + 1, 0);
  return Array.from({ length }, (_, n) => known.get(first + n * step) ?? null);
};

const traceOf = ({ name, of, hue, dash, type }, { format, series }, grid, times, now) => {
  const y = grid.map((slot) => (slot === null ? null : of(slot)));
  const hovertext = grid.map((_, n) =>
    y[n] === null ? "" : `${clock(times[n], now)}${series.length > 1 ? ` ${name}` : ""}: ${format(y[n])}`,
  );
  const shared = { x: times, y, hovertext, hoverinfo: "text" };
  if (type === "bar") return { ...shared, type, marker: { color: colour(`hue-${hue}`), line: { width: 0 } } };
  return {
    ...shared,
    type: "scatter",
    // Dots too: a point between two gaps has no line.
    mode: "lines+markers",
    connectgaps: false,
    line: { color: colour(`hue-${hue}`), width: 1.6, dash },
    marker: { color: colour(`hue-${hue}`), size: 3 },
  };
};

const makeFigure = (chart) => {
  const figure = document.getElementById("figure").content.firstElementChild.cloneNode(true);
  figure.dataset.chart = chart.id;
  figure.querySelector(".name").textContent = chart.title;
  if (chart.series.length > 1) {
    figure.querySelector(".keys").append(
      ...chart.series.map(({ name, hue }) => {
        const key = document.createElement("span");
        key.className = "key";
        key.dataset.hue = hue;
        key.textContent = name;
        return key;
      }),
    );
  }
  return figure;
};

// Steps between ticks that a person counts in: 1, 2, 5, 10; of more than a minute, whole minutes, hours, days.
const LONG_STEPS = [60, 120, 300, 600, 1200, 3600, 7200, 18000, 43200, 86400];

// About three ticks, in the words of the table.
const ticksOf = (maximum, { format, isTime }) => {
  const rough = maximum / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const round = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const step = isTime && round >= 60 ? (LONG_STEPS.find((long) => long >= rough) ?? round) : round;
  const tickvals = Array.from({ length: 5 }, (_, n) => n * step).filter((value) => value <= maximum * 1.1);
  return { tickvals, ticktext: tickvals.map((value) => (value === 0 ? "0" : format(value))) };
};

/** Draw a query's charts into `node`. */
export const drawCharts = async (node, { query, slots }, { since, slot_seconds: step }, now) => {
  const Plotly = await plotly;
  const grid = gapless(slots, since, step, now);
  const first = Math.ceil(since / step) * step;
  const times = grid.map((_, n) => first + (n + 0.5) * step);
  for (const chart of CHARTS) {
    const heights = grid.map((slot) => {
      const values = slot === null ? [] : chart.series.map(({ of }) => of(slot)).filter((value) => value !== null);
      if (!values.length) return null;
      return chart.series[0].type === "bar" ? values.reduce((sum, value) => sum + value, 0) : Math.max(...values);
    });
    const there = heights.filter((value) => value !== null);
    let figure = node.querySelector(`[data-chart="${chart.id}"]`);
    if (!there.length) {
      figure?.remove();
      continue;
    }
    if (!figure) {
      figure = makeFigure(chart);
      const later = CHARTS.slice(CHARTS.indexOf(chart) + 1).map(({ id }) => node.querySelector(`[data-chart="${id}"]`));
      node.insertBefore(figure, later.find((found) => found !== null) ?? null);
    }
    const maximum = Math.max(...there) || 1;
    const chartNode = figure.querySelector(".chart");
    chartNode.setAttribute(
      "aria-label",
      `${chart.title} of ${query} over the last hours: newest ${chart.format(there.at(-1))}, maximum ` +
        `${chart.format(Math.max(...there))}; the table shows the newest batch`,
    );
    const ticks = Array.from({ length: 4 }, (_, n) => (Math.floor(now / TICK_SECONDS) - n) * TICK_SECONDS);
    await Plotly.react(
      chartNode,
      chart.series.map((one) => traceOf(one, chart, grid, times, now)),
      layout({
        barmode: "stack",
        bargap: 0.1,
        margin: { l: 8, r: 8, t: 6, b: 22 },
        showlegend: false,
        hovermode: "closest",
        xaxis: {
          range: [since, now],
          tickvals: ticks,
          ticktext: ticks.map((at) => clock(at, at)),
          fixedrange: true,
          showgrid: false,
          zeroline: false,
          tickfont: { color: colour("muted"), size: 12 },
        },
        yaxis: {
          range: [0, maximum * 1.12],
          ...ticksOf(maximum, chart),
          automargin: true,
          fixedrange: true,
          gridcolor: colour("line"),
          zerolinecolor: colour("line"),
          tickfont: { color: colour("muted"), size: 12 },
        },
      }),
      CONFIG,
    );
  }
};
