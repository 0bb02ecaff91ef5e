// The table of a query's metrics. Values are set as text, never as HTML.

import { age, bytes, count, duration, moment, rate } from "./format.js";

const max = (slots, of) => {
  const found = slots.map(of).filter((value) => value !== null && value !== undefined);
  return found.length ? Math.max(...found) : null;
};

// Metrics that a query does not have get no row.
const rowsOf = ({ newest, slots }, now) => {
  const rows = [];
  const add = (name, format, value, maximum, className = "") => {
    if (value === null && maximum === null) return;
    rows.push([name, value === null ? "–" : format(value), maximum === null ? "" : format(maximum), className]);
  };
  add("Input, rows/s", rate, newest.input_rate, max(slots, (slot) => slot.input_rate));
  add("Processed, rows/s", rate, newest.processed_rate, max(slots, (slot) => slot.processed_rate));
  add("Rows", count, newest.rows, null);
  add("Duration", duration, newest.seconds, max(slots, (slot) => slot.seconds));
  for (const phase of Object.keys(newest.phases).sort((one, other) => newest.phases[other] - newest.phases[one])) {
    add(phase, duration, newest.phases[phase], max(slots, (slot) => slot.phases[phase] ?? null), "phase");
  }
  if (newest.state) {
    add("State, rows", count, newest.state.rows, max(slots, (slot) => slot.state?.rows ?? null));
    add("updated", count, newest.state.updated, null, "phase");
    add("removed", count, newest.state.removed, null, "phase");
    add("State, memory", bytes, newest.state.memory_bytes, max(slots, (slot) => slot.state?.memory_bytes ?? null));
    const late = slots.reduce((sum, slot) => sum + slot.late, 0);
    rows.push(["Late rows dropped", count(newest.late), `${count(late)} in total`, ""]);
    const early = slots.reduce((sum, slot) => sum + slot.early, 0);
    rows.push(["Early rows left out", count(newest.early), `${count(early)} in total`, ""]);
  }
  if (newest.watermark !== null) {
    rows.push(["Watermark", moment(newest.watermark, now), "", ""]);
    add("lag", age, newest.at - newest.watermark, max(slots, (slot) => slot.watermark_lag), "phase");
  }
  if (newest.behind) {
    add("Offset lag, maximum", count, newest.behind.most, max(slots, (slot) => slot.behind?.most ?? null));
    add("average", rate, newest.behind.mean, null, "phase");
    add("minimum", count, newest.behind.least, null, "phase");
  }
  rows.push(["Batch", count(newest.batch), "", ""], ["ended", moment(newest.ended, now), "", "phase"]);
  return rows;
};

const cell = (tag, text, className) => {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  return made;
};

/** Fill the table body with a query's newest values and the maxima of the last hours. */
export const fillQueryTable = (body, query, now) => {
  if (!query.newest) {
    body.replaceChildren();
    return;
  }
  body.replaceChildren(
    ...rowsOf(query, now).map(([name, value, maximum, className]) => {
      const row = document.createElement("tr");
      const head = cell("th", name, className);
      head.scope = "row";
      row.append(head, cell("td", value, "number"), cell("td", maximum, "number"));
      return row;
    }),
  );
};
