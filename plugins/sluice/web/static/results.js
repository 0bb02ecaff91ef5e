// The page of a query's results: totals, top groups of a window, and the last day.

import { fetchJson } from "./fetch.js";
import { drawBars } from "./bar_chart.js";
import { chooseWindow, chosenWhose, chosenWindow, listen, offer } from "./window_select.js";
import { drawDay } from "./day_chart.js";
import { poll } from "./polling.js";
import { plotly } from "./plotly.js";
import { showStatus } from "./status.js";
import { fillTable } from "./table.js";
import { age, count, moment, span } from "./format.js";
import { counted, kinds, names } from "./words.js";

const at = (id) => document.getElementById(id);
const { stream, query, watermarkMinutes } = document.body.dataset;
const OLD_SECONDS = Number(watermarkMinutes) * 60;

const say = (text) => {
  at("announcer").textContent = text;
};

const request = () => {
  const window = chosenWindow();
  return fetchJson(`results/${encodeURIComponent(`${stream}.${query}`)}`, { whose: chosenWhose(), ...(window === "" ? {} : { window }) });
};

const tick = (data, now, error) => {
  const source = data.source_at === null ? null : now - data.source_at;
  at("source").textContent = source === null ? "none yet" : `${age(source)} ago`;
  at("source").dataset.old = String(Boolean(error) || (source !== null && source > OLD_SECONDS));
  at("written").textContent = data.at === null ? "none yet" : `${age(now - data.at)} ago`;
  showStatus(at("health"), at("components"), at("supervision"), data.status, now, !error);
};

const showFigures = ({ at: written, source_at: source, late, early, watermark }, now) => {
  at("source-at").textContent = source === null ? "" : `counted, published at ${moment(source, now)}`;
  at("written-at").textContent = written === null ? "" : `written at ${moment(written, now)}`;
  at("late").textContent = count(late);
  at("early").textContent = count(early);
  at("watermark").textContent = watermark === null ? "none yet" : moment(watermark, now);
};

const sums = ({ value, groups, open }) =>
  `${count(value)} ${counted} by ${count(groups)} ${names} · ${open ? "still counting" : "closed"}`;

const showWindow = ({ window, windows }, now) => {
  const reason = window === null
    ? (windows.length ? "This window is no longer shown; choose another." : `No ${counted} counted yet.`)
    : (window.top.length ? "" : `No ${counted}${kinds.length ? " of this kind" : ""} in this window.`);
  at("window-title").textContent = window === null ? "No window" : span(window.start, window.end, now);
  at("window-sums").textContent = window === null ? "" : sums(window);
  at("empty").textContent = reason;
  at("empty").hidden = reason === "";
  at("both").hidden = reason !== "";
  fillTable(at("rows"), window?.top ?? []);
};

const draw = async ({ window, windows }, now) => {
  try {
    await plotly;
  } catch {
    at("chart").hidden = true;
    at("no-chart").hidden = false;
    return;
  }
  // The answer may have been replaced while the library loaded: then the later call draws.
  if (page.data().window !== window) return;
  if (window?.top.length) await drawBars(at("chart"), window.top);
  await drawDay(at("day"), windows, window?.start, chosenWhose(), now, (start) => chooseWindow(String(start)));
};

const show = (data, now) => {
  showFigures(data, now);
  offer(data.windows, now);
  showWindow(data, now);
};

const page = poll({ request, show, tick, draw, missing: "No results yet" });

listen(async () => {
  if (await page.refresh()) {
    const { window, now } = page.data();
    say(window === null ? at("empty").textContent : `${span(window.start, window.end, now)}: ${sums(window)}`);
  }
});
page.refresh();
