// The page of a query's results: figures, the busiest users of a window, and the last day.

import { ask } from "./ask.js";
import { drawBars } from "./bars.js";
import { chooseWindow, chosenWhose, chosenWindow, listen, offer } from "./choice.js";
import { drawDay } from "./day.js";
import { live } from "./live.js";
import { plotly } from "./plot.js";
import { showStanding } from "./standing.js";
import { fillTable } from "./table.js";
import { age, count, moment, span } from "./words.js";

const at = (id) => document.getElementById(id);
const { stream, query, patienceMinutes } = document.body.dataset;
const OLD_SECONDS = Number(patienceMinutes) * 60;

const say = (text) => {
  at("announcer").textContent = text;
};

const question = () => {
  const window = chosenWindow();
  return ask(`results/${encodeURIComponent(`${stream}.${query}`)}`, { whose: chosenWhose(), ...(window === "" ? {} : { window }) });
};

const tick = (data, now, trouble) => {
  const source = data.source_at === null ? null : now - data.source_at;
  at("source").textContent = source === null ? "none yet" : `${age(source)} ago`;
  at("source").dataset.old = String(Boolean(trouble) || (source !== null && source > OLD_SECONDS));
  at("written").textContent = data.at === null ? "none yet" : `${age(now - data.at)} ago`;
  showStanding(at("verdict"), at("parts"), at("supervision"), data.standing, now, !trouble);
};

const showFigures = ({ at: written, source_at: source, late, watermark }, now) => {
  at("source-at").textContent = source === null ? "" : `counted, published at ${moment(source, now)}`;
  at("written-at").textContent = written === null ? "" : `written at ${moment(written, now)}`;
  at("late").textContent = count(late);
  at("watermark").textContent = watermark === null ? "none yet" : moment(watermark, now);
};

const sums = ({ edits, editors, open }) =>
  `${count(edits)} edits by ${count(editors)} users · ${open ? "still counting" : "closed"}`;

const showWindow = ({ window, windows }, now) => {
  const reason = window === null
    ? (windows.length ? "This window is not shown any more: choose another." : "No edits were counted yet.")
    : (window.top.length ? "" : "Nobody of these edited in this window.");
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

const page = live({ question, show, tick, draw, missing: "No results yet" });

listen(async () => {
  if (await page.refresh()) {
    const { window, now } = page.data();
    say(window === null ? at("empty").textContent : `${span(window.start, window.end, now)}: ${sums(window)}`);
  }
});
page.refresh();
