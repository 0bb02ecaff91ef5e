// The table beside a query's pictures. Text goes in as text: nothing here makes HTML of a string.

import { age, bytes, count, duration, moment, rate } from "./words.js";

const most = (slots, of) => {
  const found = slots.map(of).filter((value) => value !== null && value !== undefined);
  return found.length ? Math.max(...found) : null;
};

// What a query does not have is no row: one without state has no rows of it.
const rowsOf = ({ newest, slots }, now) => {
  const rows = [];
  const add = (name, format, value, greatest, className = "") => {
    if (value === null && greatest === null) return;
    rows.push([name, value === null ? "–" : format(value), greatest === null ? "" : format(greatest), className]);
  };
  add("Input, rows/s", rate, newest.input_rate, most(slots, (slot) => slot.input_rate));
  add("Processed, rows/s", rate, newest.processed_rate, most(slots, (slot) => slot.processed_rate));
  add("Rows", count, newest.rows, null);
  add("Duration", duration, newest.seconds, most(slots, (slot) => slot.seconds));
  for (const part of Object.keys(newest.parts).sort((one, other) => newest.parts[other] - newest.parts[one])) {
    add(part, duration, newest.parts[part], most(slots, (slot) => slot.parts[part] ?? null), "part-of");
  }
  if (newest.state) {
    add("State, rows", count, newest.state.rows, most(slots, (slot) => slot.state?.rows ?? null));
    add("updated", count, newest.state.updated, null, "part-of");
    add("removed", count, newest.state.removed, null, "part-of");
    add("State, memory", bytes, newest.state.memory_bytes, most(slots, (slot) => slot.state?.memory_bytes ?? null));
    const late = slots.reduce((sum, slot) => sum + slot.late, 0);
    rows.push(["Late rows dropped", count(newest.late), `${count(late)} in all`, ""]);
  }
  if (newest.watermark !== null) {
    rows.push(["Watermark", moment(newest.watermark, now), "", ""]);
    add("behind the clock", age, newest.at - newest.watermark, most(slots, (slot) => slot.watermark_lag), "part-of");
  }
  if (newest.behind) {
    add("Offsets behind, most", count, newest.behind.most, most(slots, (slot) => slot.behind?.most ?? null));
    add("average", rate, newest.behind.mean, null, "part-of");
    add("fewest", count, newest.behind.least, null, "part-of");
  }
  rows.push(["Batch", count(newest.batch), "", ""], ["ended", moment(newest.ended, now), "", "part-of"]);
  return rows;
};

const cell = (tag, text, className) => {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  return made;
};

/** Put a query's newest figures, and the greatest of the last hours, into the table body. */
export const fillFigures = (body, query, now) => {
  if (!query.newest) {
    body.replaceChildren();
    return;
  }
  body.replaceChildren(
    ...rowsOf(query, now).map(([name, value, greatest, className]) => {
      const row = document.createElement("tr");
      const head = cell("th", name, className);
      head.scope = "row";
      row.append(head, cell("td", value, "number"), cell("td", greatest, "number"));
      return row;
    }),
  );
};
